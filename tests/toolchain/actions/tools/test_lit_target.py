"""Verdicts on tests with RUN lines: what lit says becomes an outcome with its place. The programs of LLVM are scripts here."""

from __future__ import annotations

import itertools
import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlir_matrix.actions import contract
from mlir_matrix.actions.api import Action, MachineFailed
from mlir_matrix.actions.runtime.source import load
from support.workspace import REPOSITORY

#: lit leaves the ends of pipes to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PLACE = str(REPOSITORY / "matrix/targets/lit/run.py")
FEATURES = "native x86_64 target=x86_64-unknown-linux-gnu"
#: What is said and done with the program's arguments; by name.
PROGRAMS = {
    "mlir-opt": 'for word in "$@"; do echo "[$word]"; done',
    "mlir-runner": "exit 3",
    "llc": "kill -SEGV $$",
    "FileCheck": "echo 'test.mlir:7:11: error: CHECK: expected string not found in input' >&2; exit 1",
    "not": "echo 'it does not crash' >&2; exit 1",
    "opt": "echo 'opt: error while loading shared libraries: libLLVM.so: cannot open shared object file' >&2; exit 127",
}
Judge = Callable[..., dict[str, Any]]


@pytest.fixture
def judge(environments: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Return the verdict on a test of these lines."""
    environment = environments.require("lit")
    for site in environment.sites(environments.packages):
        monkeypatch.syspath_prepend(site)
    for name, does in PROGRAMS.items():
        path = tmp_path / "programs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{does}\n")
        path.chmod(0o755)
        monkeypatch.setitem(contract.programs, name, ("22.1.8", str(path)))
    run, numbers = load(PLACE, "run"), itertools.count()

    def verdict(*lines: str, substitutions: str = "") -> dict[str, Any]:
        folder = tmp_path / f"action-{next(numbers)}"
        (folder / "out").mkdir(parents=True)
        (folder / "in").write_text("\n".join(lines))
        monkeypatch.chdir(folder)
        parameters = {"features": FEATURES, "substitutions": substitutions}
        inputs, outputs = {"artifact": "in"}, {"verdict": "out/verdict.json"}
        run(Action(params={"parameters": parameters}, inputs=inputs, outputs=outputs))
        found: dict[str, Any] = json.loads(Path("out/verdict.json").read_text())
        return found

    return verdict


@pytest.mark.parametrize(
    ("lines", "outcome", "reason"),
    [
        (["RUN: mlir-opt %s"], "pass", ""),
        (["RUN: mlir-runner %s"], "run-failed", "mlir-runner of RUN line 1 fails with exit code 3: it prints nothing"),
        (["RUN: mlir-cpu-runner %s"], "run-failed", "mlir-cpu-runner of RUN line 1"),
        (["RUN: mlir-opt %s", "", r"RUN: mlir-opt \ ".rstrip(), "RUN:   %s | FileCheck %s"], "mismatch",
         "FileCheck of RUN line 3 fails with exit code 1: CHECK: expected string not found in input (line 7)"),
        # The first failure of a pipe counts, and in it that of the program.
        (["RUN: mlir-runner %s | FileCheck %s"], "run-failed", "mlir-runner of RUN line 1"),
        (["RUN: mlir-runner %s || mlir-opt %s", "RUN: FileCheck %s"], "mismatch", "FileCheck of RUN line 2"),
        (["RUN: llc %s"], "crashed", "SIGSEGV in llc (RUN line 1)"),
        (["RUN: not mlir-runner %s"], "pass", ""),
        (["RUN: not mlir-opt %s"], "mismatch", "mlir-opt of RUN line 1 does not fail as the test expects it to: it prints nothing"),
        (["RUN: not llc %s"], "mismatch", "llc of RUN line 1 does not fail as the test expects it to"),
        (["RUN: not --crash mlir-opt %s"], "mismatch",
         "not of RUN line 1 does not fail as the test expects it to: it does not crash"),
        (["RUN: mlir-runner --verify-diagnostics"], "mismatch", "mlir-runner of RUN line 1"),
        (["RUN: mlir-runner %nothing"], "run-failed", "it prints nothing; '%nothing' is no substitution"),
        (["RUN: mlir-opt %mlir_src_dir/x.mlir && mlir-runner %S/y.txt"], "import-failed",
         "RUN line 1: no file y.txt is beside the test; corpus.yaml can name it in 'beside'"),
        (["RUN: absent %s"], "import-failed", "RUN line 1: 'absent': command not found"),
        (["RUN: mlir-opt %s <> x"], "import-failed", "RUN line 1: Unsupported redirect"),
        (["RUN: env A=1 echo x && mlir-opt"], "import-failed", "RUN line 1: Error: 'env' cannot call 'echo'"),
        (["RUN: ls"], "import-failed", "RUN line 1: 'ls': command not found"),
        (["RUN: mlir-opt < %t"], "import-failed", "No such file or directory: 'output/Output/test.mlir.tmp'"),
        (["RUN: echo x"], "import-failed", "no RUN line runs a program of its environment, so nothing is tested"),
        (["RUN: mlir-opt &"], "import-failed", "shell parser error on RUN: at line 1: mlir-opt &"),
        (["RUN: mlir-opt & echo x"], "import-failed", "(lines 1 to 1)"),
        (["RUN: mlir-opt >"], "import-failed", "shell parser error on RUN: at line 1: mlir-opt >"),
        (["RUN: | mlir-opt"], "import-failed", "shell parser error on RUN: at line 1: | mlir-opt"),
        ([""], "import-failed", "Test has no 'RUN:' line"),
        (["RUN: mlir-opt \\"], "import-failed", "Test has unterminated 'RUN:' directive (with '\\') at line 1"),
        (["RUN: mlir-opt \\", "DEFINE: %{x} = y"], "import-failed", "Test has unterminated 'RUN:' directive"),
        (["RUN: mlir-opt", "RUN: %if native %{ mlir-opt"], "import-failed",
         "'%}' is missing for %if substitution (at line 2)"),
        (["DEFINE: x = y", "RUN: mlir-opt"], "import-failed", "in DEFINE: directive on test line 1"),
        (["REDEFINE: %{x} = y", "RUN: mlir-opt"], "import-failed",
         "No substitution for '%{x}' is defined before 'REDEFINE:' directive at line 1"),
        (["DEFINE: %{x} = a%{x}", "RUN: %{x}"], "import-failed", "did not complete in the provided recursion limit (10)"),
        (["REQUIRES: native &&", "RUN: mlir-opt"], "import-failed", "in REQUIRES: directive on test line 1"),
        (["REQUIRES: gpu", "RUN: mlir-opt"], "unsupported", "Test requires the following unavailable features: gpu"),
        (["REQUIRES: target={{x86.*}}", "RUN: mlir-opt"], "pass", ""),
        (["UNSUPPORTED: native", "RUN: mlir-opt"], "unsupported", "Test does not support the following features"),
        (["RUN: %if gpu %{ mlir-opt %}"], "unsupported", "all RUN lines are for other features"),
        (["XFAIL: *", "RUN: mlir-opt"], "mismatch", "XFAIL: the test is expected to fail, and all its RUN lines succeed"),
        (["XFAIL: native", "RUN: mlir-runner"], "pass", ""),
        (["XFAIL: gpu", "RUN: mlir-runner"], "run-failed", "mlir-runner of RUN line 2"),
        # What follows END. is no directive.
        (["RUN: mlir-opt", "END.", "RUN: mlir-runner"], "pass", ""),
        (["ALLOW_RETRIES: 2", "RUN: mlir-opt", "RUN: mlir-runner"], "run-failed", "mlir-runner of RUN line 3"),
        # It may remove all that is its own.
        (["RUN: rm -rf %S/../out && mlir-opt"], "pass", ""),
    ],
)  # fmt: skip
def test_verdicts(judge: Judge, lines: list[str], outcome: str, reason: str) -> None:
    found = judge(*(f"// {line}" for line in lines))
    assert (found["outcome"], found["stage"] == "import") == (outcome, outcome in ("import-failed", "unsupported"))
    assert reason in found["reason"]
    assert os.getcwd() not in json.dumps(found)


def test_substitutions(judge: Judge) -> None:
    wanted = "mlir-opt %T/x %shlibext %mlir_c_runner_utils %{own} %mine %(line+1) mlir-opt 'a b' 100%%"
    found = judge("// DEFINE: %{own} = own", f"// RUN: {wanted} && mlir-runner", substitutions="mine=of-mine")
    said = [line[1:-1] for line in found["diagnostics"].splitlines() if line.startswith("[")]
    libraries = "lib/libmlir_c_runner_utils.so"
    assert said[:6] == ["output/x", ".so", libraries, "own", "of-mine", "3"]
    # The program is a script, with its environment variables before it.
    assert [os.path.basename(said[-3]), *said[-2:]] == ["mlir-opt", "a b", "100%"]


def test_programs_that_do_not_start_are_no_verdict(judge: Judge) -> None:
    """Whatever the test makes of that: it may expect a failure, or check what is printed."""
    for lines in (["RUN: opt"], ["RUN: not opt"], ["XFAIL: *", "RUN: opt"]):
        with pytest.raises(MachineFailed, match="a program does not start: opt: error while loading shared libraries"):
            judge(*(f"// {line}" for line in lines))
    contract.programs["opt"] = ("22.1.8", __file__)
    with pytest.raises(MachineFailed, match="RUN line 1: Could not create process"):
        judge("// RUN: opt")


@settings(max_examples=30)
@given(
    words=st.lists(
        st.text(
            alphabet=st.characters(
                exclude_characters="%\\\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029\0[]", exclude_categories=["Cs", "Cc"]
            ),
            min_size=1,
        ),
        min_size=1,
    )
)
def test_quoted_words_are_read_as_a_shell_reads_them(judge: Judge, words: list[str]) -> None:
    line = " ".join(map(shlex.quote, words))
    found = judge(f"// RUN: mlir-opt {line} && mlir-runner")
    said = [text[1:-1] for text in found["diagnostics"].splitlines() if text.startswith("[")]
    assert said == shlex.split(line)


PIECES = [*"ab %{}()'\"\\|&;<>$`*?=-,!\n", "\n// RUN: ", "\n// DEFINE: %{a} =", "\n// REQUIRES: ", "%if ", "%{a}", "%s"]


@settings(max_examples=60)
@given(pieces=st.lists(st.sampled_from([*PIECES, "mlir-opt", "\n// XFAIL: ", "native"])))
def test_no_text_is_too_odd(judge: Judge, pieces: list[str]) -> None:
    assert judge("// RUN: mlir-opt " + "".join(pieces))["outcome"]
