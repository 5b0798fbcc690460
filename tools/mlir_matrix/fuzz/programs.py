"""Write composed programs as a catalog, each a workload with the files of all sources that have it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlir_matrix.base.files import write_text
from mlir_matrix.fuzz import python_text
from mlir_matrix.fuzz.linalg_text import LINALG, LINALG_NAMED
from mlir_matrix.fuzz.profiles import WRITERS
from mlir_matrix.fuzz.resized_workloads import ResizedWorkload
from mlir_matrix.fuzz.values import BOOL, INTEGER, MOST_SIZES, SIZES, Program, ProgramValue


@dataclass(frozen=True)
class CorpusMember:
    """A program of a corpus, with its own inputs, and its own rule of what is right."""

    #: Its name in the catalog.
    origin: str

    @property
    def operations(self) -> list[str]:
        """What tells it from others, as operations do for composed programs."""
        return [f"member {self.origin}"]

    def write(self, folder: Path) -> None:
        """Write nothing: its files are in a catalog already."""


#: What a round runs.
AnyProgram = Program | ResizedWorkload | CorpusMember
_REQUIRED = {
    "component": "llvm",
    "releases": ">=19",
    "reason": "linalg has some of the operations by name since LLVM 19",
}
#: torch-mlir's release is of a commit between LLVM 23 and the one that renamed the operations.
_NAMED = (
    {"when": {"llvm": "<24"}, "file": LINALG_NAMED},
    {"carries": {"llvm": "tm-tensor"}, "file": LINALG_NAMED},
)


def write_programs(root: Path, programs: Mapping[str, AnyProgram], sources: Sequence[str]) -> None:
    """Write a catalog with programs by name: composed ones in all sources."""
    for name, program in programs.items():
        folder = root / "matrix/workloads" / name
        if not isinstance(program, Program):
            program.write(folder)
            continue
        write_text(folder / "workload.yaml", json.dumps(document(program, sources), indent=1))
        variants = [LINALG_NAMED] if LINALG in sources else []
        for source in (python_text.REFERENCE, *sources, *variants):
            write_text(folder / source, text_of(program, source))


def document(program: Program, sources: Sequence[str]) -> dict[str, Any]:
    """Return a program's ``workload.yaml``."""
    inputs: dict[str, Any] = {}
    if program.dynamic is not None:
        inputs[SIZES] = {"shape": [MOST_SIZES], "dtype": INTEGER, "formula": "iota()"}
    for number, value in enumerate(program.inputs, 1):
        seed = number + program.seed * len(program.inputs)
        inputs[value.name] = {**_declared(value), "formula": _formula(value), "seed": seed}
    outputs = {}
    for at, value in enumerate(program.returned):
        compare = {} if value.type.is_float else {"compare": "exact"}
        outputs[f"y{at}"] = {**_declared(value), **compare}
    return {
        "description": "Composed at random.",
        "golden": "computed",
        "inputs": inputs,
        "outputs": outputs,
        "requires": [_REQUIRED],
        "sources": {LINALG: _NAMED} if LINALG in sources else {},
    }


def text_of(program: Program, source: str) -> str:
    """Return a program's text in one of the sources."""
    if source in WRITERS:
        return WRITERS[source](program).text()
    return python_text.text_of(program, source)


def _declared(value: ProgramValue) -> dict[str, Any]:
    return {"shape": list(value.type.shape), "dtype": value.type.dtype}


def _formula(value: ProgramValue) -> str:
    low, high = value.range.low, value.range.high
    if value.type.dtype == BOOL:
        return "integers(0, 2)"
    if value.type.is_float:
        return f"uniform({low}, {high})"
    return f"integers({int(low)}, {int(high) + 1})"
