"""The backend of MLIR's Python bindings; the parameter ``bindings`` names the package, by default the first installed one."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.mlir import bindings, interface, kinds, reasons
from mlir_matrix.actions.mlir.backend import Printed, printed_forms
from mlir_matrix.actions.mlir.bindings import ReportingContext
from mlir_matrix.actions.params import BackendParams, StepParams

preload = bindings.preload

_SEQUENCE = "transform.named_sequence"
_PATTERN = "pdl.pattern"
#: The unit attribute that lets named sequences stand in a module.
_MARK = "transform.with_named_sequence"


@contextmanager
def _session(action: Action[BackendParams]) -> Iterator[ReportingContext]:
    with bindings.load(action.params.get("bindings", "")).session() as session:
        yield session


def transform(
    action: Action[BackendParams],
    passes: str,
    *,
    schedule: str | None = None,
    patterns: str | None = None,
    printed: str = "",
) -> None:
    """See ``Backend``. The schedule is part of the module only while the passes run."""
    with _session(action) as session:
        module = session.parse(action.inputs["ir"])
        if patterns is not None:
            library = session.parse(patterns, "the file of patterns")
            _only(library, _PATTERN, "the file of patterns")
            session.rewrite(module, library)
        if schedule is not None:
            _attach(session, module, schedule)
        session.run(module, " ".join(passes.split()), printed)
        if schedule is not None:
            _detach(module)
        text = session.text(module)
        if contract := action.params.get("contract"):
            kinds.hold(contract, text, InspectedModule(session, module))
    Path(action.outputs["ir"]).write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class InspectedModule:
    """See ``kinds.Inspected``."""

    session: ReportingContext
    module: Any

    def operations(self) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        ir = self.session.bindings.ir
        if not hasattr(ir, "WalkResult"):
            # Older releases cannot walk.
            return Counter(each.name for each in reasons.walk(self.module.operation))

        def count(operation: Any) -> Any:
            name = operation.name
            counts[name] = counts.get(name, 0) + 1
            return ir.WalkResult.ADVANCE

        self.module.operation.walk(count)
        return counts

    def located(self) -> str:
        return str(
            self.module.operation.get_asm(
                enable_debug_info=True, print_generic_op_form=True, use_local_scope=True, large_elements_limit=8
            )
        )

    def after(self, passes: str) -> str:
        self.session.run(self.module, passes)
        return self.session.text(self.module)

    def has_dialect(self, name: str) -> bool:
        try:
            self.session.context.dialects[name]
        except (IndexError, KeyError, ValueError):
            return False
        return True


def _only(library: Any, wanted: str, what: str) -> None:
    for each in library.body.operations:
        if each.operation.name != wanted:
            raise ActionFailed(f"{what} holds {each.operation.name}; only {wanted} belongs there")


def _attach(session: ReportingContext, module: Any, schedule: str) -> None:
    """Move the schedule's sequences to where ``transform-interpreter`` looks for them."""
    if _MARK in module.operation.attributes:
        raise ActionFailed("the IR already holds a transform schedule")
    library = session.parse(schedule, "the schedule")
    _only(library, _SEQUENCE, "the schedule")
    for each in list(library.body.operations):
        module.body.append(each)
    module.operation.attributes[_MARK] = session.bindings.ir.UnitAttr.get()


def _detach(module: Any) -> None:
    for each in list(module.body.operations):
        if each.operation.name == _SEQUENCE:
            each.operation.erase()
    del module.operation.attributes[_MARK]


def compile_object(action: Action[StepParams], level: int, target: str) -> None:
    """See ``Backend``. The execution engine is the bindings' only code generator; the kernel does not run here."""
    with _session(action) as session:
        module = session.parse(action.inputs["ir"])
        undefined = _undefined(module)
        stand_in = ctypes.CFUNCTYPE(None)(_never_called)
        address = ctypes.cast(stand_in, ctypes.c_void_p)
        engine = session.bindings.needed("execution_engine").ExecutionEngine
        with session.compiling("code generation failed"):
            made = engine(module, opt_level=level, enable_object_dump=True)
            for name in undefined:
                made.raw_register_runtime(name, address)
            # Compilation is lazy: the look-up makes the object. What the code generator itself calls (compiler-rt's
            # conversions) may be missing in this process, because nothing runs here.
            made.raw_lookup(interface.ENTRY)
            made.dump_to_object_file(target)
        if not Path(target).is_file() or Path(target).stat().st_size == 0:
            raise session.failed("code generation wrote no object file")


def _never_called() -> None:
    """Stand for functions of the driver, so that the engine can finish linking in memory."""


def _undefined(module: Any) -> list[str]:
    """Return the functions that the driver or libm defines. Raise ActionFailed without an entry point."""
    functions = [each.operation for each in module.body.operations if each.operation.name == "llvm.func"]
    names = {str(each.attributes["sym_name"].value): bool(len(each.regions[0].blocks)) for each in functions}
    if not names.get(interface.ENTRY):
        raise interface.without_entry()
    return sorted(name for name, defined in names.items() if not defined)


@dataclass(frozen=True)
class _Built:
    """A type of the bindings."""

    kind: Any

    @property
    def tensor(self) -> tuple[Sequence[int | None], str] | None:
        """Shape and element type; None for what is no ranked tensor."""
        if not str(self.kind).startswith("tensor<") or not getattr(self.kind, "has_rank", False):
            return None
        sizes = [
            None if self.kind.is_dynamic_dim(axis) else self.kind.get_dim_size(axis) for axis in range(self.kind.rank)
        ]
        return sizes, str(self.kind.element_type)

    def __str__(self) -> str:
        return str(self.kind)


def take_in(action: Action[BackendParams]) -> tuple[Sequence[_Built], Sequence[_Built]]:
    """See ``Backend``."""
    with _session(action) as session:
        module = session.parse(action.inputs["source"], "the file")
        found = _signature(session.bindings.ir, module)
        Path(action.outputs["out"]).write_text(session.text(module), encoding="utf-8")
        return found


def _signature(ir: Any, module: Any) -> tuple[Sequence[_Built], Sequence[_Built]]:
    for each in module.body.operations:
        operation = each.operation
        if operation.name == "func.func" and operation.attributes["sym_name"].value == "main":
            kind = ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value)
            return [_Built(each) for each in kind.inputs], [_Built(each) for each in kind.results]
    raise ActionFailed("the file has no func.func @main")


def printed(action: Action[BackendParams], names: Mapping[str, str]) -> list[Printed]:
    """See ``Backend``."""
    with _session(action) as session:
        modules = [session.parse(action.inputs[name], what) for name, what in names.items()]
        return [printed_forms(_text(module, generic=True), _text(module, generic=False)) for module in modules]


def _text(module: Any, *, generic: bool) -> str:
    # Without aliases, which only a parser of MLIR resolves.
    text = module.operation.get_asm(enable_debug_info=False, print_generic_op_form=generic, use_local_scope=generic)
    return str(text).rstrip("\n") + "\n"
