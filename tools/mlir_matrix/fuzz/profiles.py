"""Sets of operations and sources that a round composes programs from: what all of its sources have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mlir_matrix.fuzz.elementwise import ELEMENTWISE, Elementwise
from mlir_matrix.fuzz.linalg_text import LINALG, LINALG_NAMED, Linalg, NamedLinalg
from mlir_matrix.fuzz.mlir_text import MlirWriter
from mlir_matrix.fuzz.python_text import JAX, TORCH
from mlir_matrix.fuzz.stablehlo_text import STABLEHLO, StableHlo
from mlir_matrix.fuzz.structural import STRUCTURAL
from mlir_matrix.fuzz.tosa_text import TOSA, Tosa
from mlir_matrix.fuzz.values import Form

#: By the file that has their text, what writes programs as MLIR.
WRITERS: Mapping[str, type[MlirWriter]] = {
    LINALG: Linalg,
    LINALG_NAMED: NamedLinalg,
    TOSA: Tosa,
    STABLEHLO: StableHlo,
}


class Profile(NamedTuple):
    """Programs of one dtype that these sources have in common."""

    sources: Sequence[str]
    dtype: str
    forms: Sequence[Form] = (Form.GENERIC, Form.NAMED)
    #: Whether only routes that lower vectors can take them.
    vectors: bool = False
    #: Whether sizes and conditions are known only at run time.
    dynamic: bool = False

    @property
    def operations(self) -> list[str]:
        """The operations that all sources have, by name."""
        elementwise = [name for name, each in ELEMENTWISE.items() if self._has(each)]
        return [*elementwise, *(name for name in STRUCTURAL if self._writes(name))]

    def _has(self, operation: Elementwise) -> bool:
        return (TOSA not in self.sources or bool(operation.tosa)) and (
            STABLEHLO not in self.sources or bool(operation.stablehlo)
        )

    def _writes(self, operation: str) -> bool:
        writers = [WRITERS[source] for source in self.sources if source in WRITERS]
        return all(hasattr(writer, operation) for writer in writers)


_ALL = (LINALG, TOSA, STABLEHLO, TORCH, JAX)
PROFILES = (
    Profile(_ALL, "f32"),
    Profile((LINALG,), "f32", (*Form,), vectors=True),
    Profile((LINALG,), "f32", (Form.GENERIC, Form.NAMED, Form.LOOPS), dynamic=True),
    Profile((LINALG, STABLEHLO, TORCH, JAX), "f32"),
    Profile(_ALL, "f16"),
    Profile((LINALG, TORCH), "f64", (Form.GENERIC, Form.NAMED, Form.LOOPS)),
    Profile((LINALG, STABLEHLO, JAX), "bf16"),
    Profile((LINALG,), "f16", (*Form,), vectors=True),
)
#: Of a round of workloads in other sizes, which have dtypes of their own.
WORKLOADS = Profile(_ALL, "")
#: Of a round of members of corpora, as they are.
CORPORA = Profile(_ALL, "")
#: What each round runs, in turn.
ROUNDS = (*PROFILES[:3], WORKLOADS, *PROFILES[3:], CORPORA)
