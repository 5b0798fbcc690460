"""Keep the files of a test in a folder: IR of every stage, inputs, outputs, golden, log, scripts that repeat it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlir_matrix.actions.contract import Role
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import MatrixError
from mlir_matrix.base.names import TestId
from mlir_matrix.base.paths import is_installed
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import Done
from mlir_matrix.plan.graph import File, Input, Produced
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.results.commands_script import CommandScripts
from mlir_matrix.results.locations import kept_names
from mlir_matrix.results.repeats import without_copy
from mlir_matrix.results.results import Run, TestResult
from mlir_matrix.results.run_folder import RunFolder

#: The most failures of a run that have a folder.
MOST_FAILURES = 100


class KeptTests:
    """The tests of a run whose files are kept: names their folders when results are known, and writes them at the end."""

    def __init__(self, folder: RunFolder, repeat: Callable[[str], str], asked: Container[str] = ()) -> None:
        """``repeat`` returns the command that runs a test again. ``asked``: tests to keep even if they are as expected."""
        self._folder = folder
        self._repeat = repeat
        self._asked = asked
        self._named = 0
        self._trouble: OSError | None = None

    def annotate(self, test: str, outcome: Outcome, expected: bool) -> dict[str, str]:
        """Return the command that repeats a test, and the folder of a test that is kept."""
        if outcome == Outcome.UNSUPPORTED:
            return {}
        more = {"repeat": self._repeat(test)}
        # The IR test of a step says most about the step, but may be the last to fail.
        failed = not expected and (self._named < MOST_FAILURES or TestId.parse(test).is_ir)
        self._named += failed
        if (failed or without_copy(test) in self._asked) and self._trouble is None:
            try:
                more["kept"] = str(self._folder.path / test)
            except OSError as error:
                self._trouble = error
        return more

    def keep(self, run: Run, plan: PlannedTests, session: Session) -> str:
        """Write the folders. Return why some could not be written, or an empty string, so that the run still has results."""
        if not any(result.kept for result in run.results):
            return ""
        scripts = CommandScripts(session, plan, run.done)
        for number, result in enumerate(run.results):
            try:
                if result.kept and self._trouble is None:
                    _keep(result, plan, run.done, session, scripts)
            except OSError as error:
                self._trouble = error
            if result.kept and self._trouble is not None:
                run.results[number] = replace(result, kept="")
        return f"further tests have no folder: {self._trouble}" if self._trouble else ""


def _keep(
    result: TestResult,
    plan: PlannedTests,
    done: Mapping[str, Done],
    session: Session,
    scripts: CommandScripts,
) -> None:
    """Write the folder ``result.kept`` of a test."""
    folder = Path(result.kept)
    folder.mkdir(parents=True)
    kept = _keep_actions(folder, result.id, plan, done, session)
    last = plan.graph.actions[plan.verdicts[result.id]]
    if result.verdict is not None and last.tool == "judge":
        _draw_errors(folder, result.verdict, {name: kept[ref] for name, ref in last.inputs.items() if ref in kept})
    (folder / "result.json").write_text(json.dumps(result.to_json(), indent=1) + "\n", encoding="utf-8")
    if result.diagnostics:
        (folder / "diagnostics.txt").write_text(result.diagnostics + "\n", encoding="utf-8")
    if result.log:
        (folder / "log.txt").write_text(result.log, encoding="utf-8")
    scripts.write(folder, result.id, kept)
    script = folder / "repeat.sh"
    script.write_text(_from_anywhere(result.repeat), encoding="utf-8")
    script.chmod(0o755)


def _keep_actions(
    folder: Path, test: str, plan: PlannedTests, done: Mapping[str, Done], session: Session
) -> dict[Input, Path]:
    """Copy the catalog files and outputs of a test's actions; return the copies by their inputs in the plan."""
    store = ActionCache(session.home.actions)
    kept: dict[Input, Path] = {}
    for identifier, begin in kept_names(plan.graph, plan.verdicts[test]).items():
        if identifier not in done:
            continue
        action = plan.graph.actions[identifier]
        for ref in action.inputs.values():
            if isinstance(ref, File):
                kept[ref] = folder / f"{begin}-{os.path.basename(ref.path)}"
                with suppress(OSError):
                    shutil.copyfile(session.catalog.roots[ref.root] / ref.path, kept[ref])
        for name, digest in done[identifier].result.outputs.items():
            try:
                path = folder / f"{begin}-{action.outputs[name]}"
                store.copy_blob(digest, str(path))
            except OSError:
                continue
            kept[Produced(identifier, name)] = path
            if action.tool == "link":
                path.chmod(0o755)
    return kept


def _from_anywhere(command: str) -> str:
    """Return a script that runs a command by this program in this working directory."""
    words = shlex.split(command)
    launcher = Path(__file__).resolve().parents[2] / "matrix"
    words[:1] = [sys.executable, "-P", "-m", "mlir_matrix"] if is_installed() else [str(launcher)]
    return f"#!/bin/sh\ncd {shlex.quote(os.getcwd())} || exit\nexec {shlex.join(words)}\n"


def _draw_errors(folder: Path, verdict: Mapping[str, Any], arrays: Mapping[str, Path]) -> None:
    """Draw ``error-NAME.svg`` for each wrong output; ``arrays`` has files by the judge's inputs (``actual-y``, ``expected-y``).

    Outputs without a picture (sorted outputs, sketches, files that are no arrays) are left out.
    """
    for output in verdict.get("outputs", ()):
        files = [arrays.get(role.of(output["name"])) for role in (Role.ACTUAL, Role.EXPECTED)]
        if output.get("wrong") and output.get("compare") in ("numeric", "exact") and "norms" in output and all(files):
            _draw(folder / f"error-{output['name']}.svg", output, *[file for file in files if file])


def _draw(path: Path, output: Mapping[str, Any], actual: Path, expected: Path) -> None:
    # These import NumPy.
    from mlir_matrix.actions.numerics.criteria import Criteria
    from mlir_matrix.compare.arrays import compare_arrays
    from mlir_matrix.compare.files import read_array
    from mlir_matrix.compare.rules import Rules

    exact = output["compare"] == "exact"
    ulp = output.get("ulp_bound")
    criteria = Criteria(
        atol=0.0 if exact else float(output["atol"]),
        rtol=0.0 if exact else float(output["rtol"]),
        max_ulp=None if ulp is None else float(ulp),
    )
    try:
        rules = Rules(criteria=criteria)
        kind, name = str(output["dtype"]), str(output["name"])
        found = compare_arrays(read_array(actual), read_array(expected), rules, dtype=kind, golden=True, name=name)
        found.picture(path)
    except (MatrixError, OSError, ValueError):
        return
