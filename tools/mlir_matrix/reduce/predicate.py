"""Print a script with which another reducer tests a source file: whether the test still fails as it does now."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import with_pins
from mlir_matrix.base.paths import launcher
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Test
from mlir_matrix.results.results import TestResult
from mlir_matrix.results.signature import behaviour

#: The name of the workload whose source the reducer changes.
_NAME = "reduced"
#: What separates the pieces of a reason: names, what a signature leaves out, and what JSON escapes; and how short a piece may be.
_ODD = re.compile(r"'[^']*'|[^ -~]|[\"\\]")
_LEAST = 4


def script_of(session: Session, test: Test, result: TestResult, options: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a script of sh, which runs the test with the source file in the current folder.

    Raise UsageError for wrong numbers, because another program has other numbers.
    """
    if test.route is None or result.outcome == Outcome.MISMATCH:
        raise UsageError(
            f"--predicate: {test.id} ends with {result.outcome}; a script tells crashes and errors of a program apart, "
            "and matrix reduce wrong numbers and IR tests"
        )
    workload, source = session.catalog.workloads[test.workload], test.route.source
    folder = str(workload.folder)
    identifier = with_pins(f"{test.framework}/{test.pipeline}/{test.target}/{_NAME}", test.pins)
    run = shlex.join([launcher(), "run", identifier, *options, "--quiet", "--format", "json"])
    step = result.step["name"] if result.step else ""
    if step.endswith(f"/{test.workload}"):
        step = f"{step.removesuffix(test.workload)}{_NAME}"
    yield "#!/bin/sh"
    yield f"# Exit code 0 if {source} in this folder makes {test.id} end with {result.outcome} at {step}."
    yield f"# For example: cvise THIS_FILE {source}"
    yield "set -eu"
    yield "catalog=$(mktemp -d)"
    yield "trap 'rm -rf \"$catalog\"' EXIT"
    yield f"workload=$catalog/matrix/workloads/{_NAME}"
    yield 'mkdir -p "$(dirname "$workload")"'
    yield f'cp -R {shlex.quote(folder)} "$workload"'
    yield f'cp {shlex.quote(source)} "$workload/"'
    # A reducer runs the script in folders of its own.
    yield f'(cd {shlex.quote(os.getcwd())} && {run} --catalog "$catalog") > "$catalog/results.json" || true'
    yield f'grep -q \'"outcome": "{result.outcome}"\' "$catalog/results.json"'
    yield f'grep -q \'"name": "{step}"\' "$catalog/results.json"'
    for words in _reason(result):
        yield f'grep -qF {shlex.quote(words)} "$catalog/results.json"'
    if result.frame:
        yield f'grep -qF {shlex.quote(result.frame)} "$catalog/results.json"'


def _reason(result: TestResult) -> Iterator[str]:
    """Yield what a failure says but for names and numbers, in pieces that JSON writes as they are."""
    for each in behaviour(result).details:
        yield from (words.strip() for words in _ODD.split(each) if len(words.strip()) >= _LEAST)
