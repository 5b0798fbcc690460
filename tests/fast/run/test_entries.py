"""Entries of CTest: each cell has its tests, and nothing else of the catalogs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.base.names import TestId, test_glob
from mlir_matrix.cli.options import absolute_catalog
from mlir_matrix.run.entries import ctest_lines, globs_of, lit_lines

_names = st.from_regex(r"[a-z][a-z0-9_.+-]{0,4}[a-z0-9]", fullmatch=True)
_called = st.builds(
    lambda corpus, name, tested_property: f"{corpus}{name}{tested_property}",
    st.sampled_from(["", "onnx:"]), _names, st.sampled_from(["", "~scaling"]),
)  # fmt: skip
_tests = st.builds(TestId, _names, _names, _names, _called, st.sampled_from(["", "llvm=19", "jax=0.7.2,llvm=22"]))


@given(st.sets(_tests, max_size=90))
def test_the_globs_of_tests_match_them_alone(tests: set[TestId]) -> None:
    globs = [test_glob(glob) for glob in globs_of(tests)]
    chosen, others = set(list(tests)[::2]), set(list(tests)[1::2])
    assert all(any(glob.matches(str(test)) for glob in globs) for test in tests)
    # A test without pins has a glob that matches any pins.
    of_half = [test_glob(glob) for glob in globs_of(chosen)]
    free = {str(test._replace(pins="")) for test in chosen if not test.pins}
    for test in others:
        if str(test._replace(pins="")) not in free:
            assert not any(glob.matches(str(test)) for glob in of_half)


def test_a_cell_is_a_test_of_ctest() -> None:
    tests = ["mlir/linalg-loops/x86_64/mlp", "mlir/linalg-loops/x86_64/dot", "mlir/bufferize/ir/owned"]
    text = "\n".join(ctest_lines("/a $b/matrix", ["--catalog", 'x"y'], ["smoke"], tests))
    assert (
        'add_test("${MlirMatrix_PREFIX}mlir/linalg-loops/x86_64" "/a \\$b/matrix" "run" "--quiet" "--catalog" "x\\"y"'
        ' "smoke" "mlir/linalg-loops/x86_64/{dot,mlp}")\n'
    ) in text
    assert re.findall(r'LABELS "(.*?)\$\{MlirMatrix_LABELS\}"', text) == ["mlir;linalg-loops;x86_64", "ir"]
    assert '"smoke" "mlir/bufferize/ir/owned")' in text


def test_folders_of_options_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b").mkdir()
    values = {"data": f"{tmp_path}/data", "zoo=data": f"zoo={tmp_path}/data", "a=b": f"{tmp_path}/a=b"}
    assert {value: absolute_catalog(value) for value in values} == values


def test_the_file_for_lit_is_python() -> None:
    text = "\n".join(lit_lines("/a'b/matrix", ["--catalog", "x\\y"], ["smoke"]))
    call = text.replace("config.test_format", "found").replace("mlir_matrix.lit.Matrix", "dict")
    values: dict[str, object] = {}
    code = [line for line in call.splitlines() if line.startswith("found")]
    exec(code[0].replace("dict(", "(lambda *words, program: (words, program))("), values)
    assert values["found"] == ((["smoke"], ["--catalog", "x\\y"]), "/a'b/matrix")
