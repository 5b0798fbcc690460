"""The entry point of kernels, limits of the driver, and whether a hand-written ``@main`` has the declared types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.params import CodegenParams, SignatureParams, Tensor

#: MLIR's integers are signless here, as in the dialects that every pipeline lowers through. StableHLO has unsigned ones, too.
ELEMENTS = {
    "f64": "f64", "f32": "f32", "f16": "f16", "bf16": "bf16",
    "i64": "i64", "i32": "i32", "i16": "i16", "i8": "i8",
    "u64": "i64", "u32": "i32", "u16": "i16", "u8": "i8", "bool": "i1",
    "c64": "complex<f32>", "c128": "complex<f64>",
}  # fmt: skip
UNSIGNED = {dtype: f"u{element}" for dtype, element in ELEMENTS.items() if dtype.startswith("u")}


class Type(Protocol):
    """A type of an argument or a result; as text it is as written."""

    @property
    def tensor(self) -> tuple[Sequence[int | None], str] | None:
        """Shape, None for an open axis, and element type; None for what is no ranked tensor."""


def complaints(params: SignatureParams, taken: Sequence[Type], given: Sequence[Type]) -> list[str]:
    """Return the differences between types and declarations, one sentence each."""
    return [*_compare("input", params["inputs"], taken), *_compare("output", params["outputs"], given)]


def refuse(found: Sequence[str]) -> None:
    """Raise ActionFailed if there are complaints."""
    if found:
        text = "".join(f"{each}\n" for each in found)
        raise ActionFailed(f"@main is not what the workload declares: {found[0]}", diagnostics=text)


def _compare(role: str, declared: Sequence[Tensor], found: Sequence[Type]) -> Iterator[str]:
    if len(declared) != len(found):
        yield f"{len(declared)} {role}s are declared and @main has {len(found)}"
        return
    for each, kind in zip(declared, found, strict=True):
        if not _fits(each, kind.tensor, role):
            yield f"{role} {each['name']} must be tensor<{_spelt(each)}>, it is {kind}"


def _spelt(declared: Tensor) -> str:
    open_axes = set(declared.get("dynamic", ()))
    sizes = ("?" if axis in open_axes else str(size) for axis, size in enumerate(declared["shape"]))
    return "x".join([*sizes, ELEMENTS[declared["dtype"]]])


def _elements(declared: Tensor) -> tuple[str, ...]:
    dtype = declared["dtype"]
    return (ELEMENTS[dtype], UNSIGNED[dtype]) if dtype in UNSIGNED else (ELEMENTS[dtype],)


def _fits(declared: Tensor, found: tuple[Sequence[int | None], str] | None, role: str) -> bool:
    """Return whether a tensor has the declared type. Sizes of results may be open."""
    if found is None or found[1] not in _elements(declared) or len(found[0]) != len(declared["shape"]):
        return False
    open_axes = set(declared.get("dynamic", ()))
    for axis, (size, has) in enumerate(zip(declared["shape"], found[0], strict=True)):
        if has is None:
            if role == "input" and axis not in open_axes:
                return False
        elif axis in open_axes or has != size:
            return False
    return True


#: The C interface of ``@main``, by which the driver calls a kernel.
ENTRY = "_mlir_ciface_main"


#: What the driver can pass to a kernel: a pointer for each argument and one for all results (tools/driver/call.h; 64 on
#: WebAssembly), so many results, and so many dimensions of a tensor (spec.h).
MAX_POINTERS = 2048


MAX_RANK = 32


#: The most elements of a tensor: 128 GiB of doubles.
MAX_ELEMENTS = 1 << 34


_LEVELS = (0, 1, 2, 3)


def opt_level(action: Action[CodegenParams]) -> int:
    """Return LLVM's optimisation level for an action. Raise ActionFailed for an invalid one."""
    level = action.params.get("parameters", {}).get("opt-level", 2)
    # True is 1 to Python.
    if level not in _LEVELS or isinstance(level, bool):
        raise ActionFailed(f"opt-level is {level!r}; it must be 0, 1, 2 or 3")
    return int(level)


def without_entry() -> ActionFailed:
    """Return the error for IR without the entry point."""
    return ActionFailed(f"the IR has no function {ENTRY}; is it lowered to the LLVM dialect with C wrappers?")
