"""Choose the backend of a tool on MLIR: the Python bindings, or the programs of a release.

The parameter ``backend`` names the module, ``by_bindings`` or ``by_programs``. Only that one is imported, and only that
one is part of an action's key (``execute/keys``).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, cast

from mlir_matrix.actions.contract import Action
from mlir_matrix.actions.mlir.interface import Type
from mlir_matrix.actions.params import BackendParams, StepParams


class Printed(NamedTuple):
    """A module as text, in the generic form and in the custom one."""

    generic: str
    custom: str


def printed_forms(generic: str, custom: str) -> Printed:
    """Return both forms. MLIR leaves out the elements of resources where it prints without aliases: the custom form has them."""
    begin = custom.rfind("\n{-#") + 1
    return Printed(generic + custom[begin:] if begin else generic, custom)


class Backend(Protocol):
    """What a module ``by_…`` defines. Each function raises ActionFailed with the compiler's diagnostics."""

    def preload(self) -> None:
        """Import in the warm parent what every child needs."""

    def transform(
        self,
        action: Action[BackendParams],
        passes: str,
        *,
        schedule: str | None = None,
        patterns: str | None = None,
        printed: str = "",
    ) -> None:
        """Read ``ir``, apply patterns, run passes with a schedule, write ``ir``.

        ``printed``: a folder for the IR after each pass, in files of its own.
        """

    def compile_object(self, action: Action[StepParams], level: int, target: str) -> None:
        """Compile ``ir``, in the LLVM dialect, to an object file."""

    def take_in(self, action: Action[BackendParams]) -> tuple[Sequence[Type], Sequence[Type]]:
        """Read ``source``, write it normalised as ``out``; return the types of @main's arguments and results."""

    def printed(self, action: Action[BackendParams], names: Mapping[str, str]) -> list[Printed]:
        """Print inputs; ``names`` maps each to what diagnostics call it."""


def backend_of(action: Action[BackendParams]) -> Backend:
    """Import and return the backend that an action asks for."""
    return _load(action.params["backend"])


def preload() -> None:
    """Preload the backends that exist. Bazel gives a worker only those that its actions name."""
    for name in ("bindings", "programs"):
        if importlib.util.find_spec(_module(name)) is not None:
            _load(name).preload()


def _load(name: str) -> Backend:
    return cast(Backend, importlib.import_module(_module(name)))


def _module(name: str) -> str:
    return f"{__name__.rpartition('.')[0]}.by_{name}"
