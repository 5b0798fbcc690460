"""Write composed programs as a catalog: for each source a corpus of the files that have it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlir_matrix.base.files import write_text
from mlir_matrix.fuzz import mlir_text, python_text
from mlir_matrix.fuzz.values import BOOL, Program, Value

#: By source: the corpus of its programs.
CORPORA = {
    python_text.TORCH: "composed-pytorch",
    python_text.JAX: "composed-jax",
    mlir_text.LINALG: "composed-linalg",
    mlir_text.TOSA: "composed-tosa",
    mlir_text.STABLEHLO: "composed-stablehlo",
}
_FOLDER = "programs"


def write_catalog(root: Path, programs: Mapping[str, Program], sources: Sequence[str]) -> None:
    """Write a catalog with programs by name, each in all sources."""
    for name, program in programs.items():
        write_text(root / _FOLDER / f"{name}.json", json.dumps(document(program, sources), indent=1))
    for source in sources:
        corpus = {"description": "Composed at random.", "source": CORPORA[source], "folder": _FOLDER}
        write_text(root / "matrix/corpora" / CORPORA[source] / "corpus.yaml", json.dumps(corpus))


def document(program: Program, sources: Sequence[str]) -> dict[str, Any]:
    """Return a program's file, as the sources ``composed-…`` read it."""
    texts = {source: text_of(program, source) for source in (python_text.REFERENCE, *sources)}
    inputs = [
        {
            **_declared(value, value.name),
            "formula": _formula(value),
            "seed": number + program.seed * len(program.inputs),
        }
        for number, value in enumerate(program.inputs, 1)
    ]
    return {
        "inputs": inputs,
        "outputs": [_declared(value, f"y{at}") for at, value in enumerate(program.returned)],
        **texts,
    }


def text_of(program: Program, source: str) -> str:
    """Return a program's text in one of the sources."""
    write = python_text.text_of if source.endswith(".py") else mlir_text.text_of
    return write(program, source)


def _declared(value: Value, name: str) -> dict[str, Any]:
    return {"name": name, "shape": list(value.type.shape), "dtype": value.type.dtype, "dynamic": []}


def _formula(value: Value) -> str:
    low, high = value.range.low, value.range.high
    if value.type.dtype == BOOL:
        return "integers(0, 2)"
    if value.type.is_float:
        return f"uniform({low}, {high})"
    return f"integers({int(low)}, {int(high) + 1})"
