"""RUN lines of IR tests: parameters of the step, prefixes and options of FileCheck, and what is refused."""

from __future__ import annotations

import pytest

from mlir_matrix.catalog.models.base import Step
from mlir_matrix.catalog.run_lines import RunLine, run_lines

STEP = Step.model_validate(
    {
        "description": "d",
        "environment": "mlir",
        "accepts": ["linalg"],
        "passes": "p{${rows} ${sizes}}",
        "parameters": {
            "rows": {"description": "d", "default": 8},
            "sizes": {"description": "d", "default": [4, 4]},
            "name": {"description": "d", "default": "x"},
            "rate": {"description": "d", "default": 0.5},
        },
    }
)


def test_each_line_has_its_values_and_options() -> None:
    text = (
        "// RUN: %step | FileCheck %s\n"
        "func.func @f() // RUN: is no line of its own\n"
        "  // RUN: %step --with rows=4 --with sizes=2,3 --with name=5 --with rate=1"
        " | FileCheck %s --check-prefixes=A,B -match-full-lines\n"
    )
    assert list(run_lines(text, STEP)) == [
        RunLine(1, (), ()),
        RunLine(
            3,
            (("rows", 4), ("sizes", (2, 3)), ("name", "5"), ("rate", 1)),
            ("--check-prefixes=A,B", "-match-full-lines"),
        ),
    ]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("mlir-opt %s | FileCheck %s", "mlir-opt %s | FileCheck %s is no RUN line of an IR test: expected %step"),
        ("%step rows=4 | FileCheck %s", "rows=4 after %step: expected"),
        ("%step --with | FileCheck %s", "--with after %step: expected"),
        ("%step --with rowz=4 | FileCheck %s", "did you mean 'rows'?"),
        ("%step --with rows=x | FileCheck %s", "--with rows=x: expected a value like 8"),
        ("%step --with rate=fast | FileCheck %s", "--with rate=fast: expected a value like 0.5"),
        ("%step --with rows= | FileCheck %s", "--with: expected a value after '='"),
        ("%step | FileCheck %s --dump-input=always", "the option --dump-input=always of FileCheck"),
    ],
)
def test_what_is_wrong_has_its_line_and_what_would_be_right(command: str, words: str) -> None:
    ((line, message),) = run_lines(f"\n// RUN: {command}\n", STEP)  # type: ignore[misc]
    assert line == 2
    assert words in message
