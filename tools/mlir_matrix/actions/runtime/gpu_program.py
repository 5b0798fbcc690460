"""Programs for GPUs: pack them, take their parts, and call their host code, which calls back for each launch.

A program is a zip. ``host.so`` is the host code (``recipes/steps/gpu-host``), ``kernels.json`` has the types of each kernel's
arguments, ``kernels.mlir`` is the kernels in MLIR, which later steps replace by code for one GPU.
"""

from __future__ import annotations

import ctypes
import json
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.runtime import memrefs
from mlir_matrix.actions.runtime.prepared import pack, unpack

#: The kind of such programs.
KIND = "gpu-program"
#: Its parts.
HOST, SIGNATURES, MODULE = "host.so", "kernels.json", "kernels.mlir"
_FOLDER = Path("program")
#: Bytes of a scalar argument, by type.
_BYTES = {"index": 8, "i64": 8, "f64": 8, "i32": 4, "f32": 4, "i16": 2, "f16": 2, "bf16": 2, "i8": 1, "i1": 1}
_MEMREF = re.compile(r"memref<((?:(?:\d+|\?)x)*)([a-z]+\d*)[,>]")
_LAUNCH = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int64), ctypes.c_int32,
    ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64,
)  # fmt: skip
_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_COPY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int64))


class Memref(NamedTuple):
    """An argument of a kernel that is a memref. Sizes, offset and strides count elements."""

    allocated: int
    aligned: int
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    element: str

    @property
    def element_bytes(self) -> int:
        return _BYTES[self.element]

    @property
    def extent(self) -> tuple[int, int]:
        """The addresses where its data may begin, without the offset, and where they end."""
        last = sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))
        elements = self.offset + last + 1 if all(self.sizes) else 0
        return self.aligned, self.aligned + elements * self.element_bytes


class KernelParameter(NamedTuple):
    """A parameter of a compiled kernel. ``pointer``: its value is the address of a memref's memory."""

    address: int
    bytes: int
    pointer: bool = False


class Launch(NamedTuple):
    """One launch of a kernel, all of whose effects must be there when it returns."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    #: By argument of the kernel: a memref, or the bytes of a scalar.
    arguments: list[Memref | bytes]
    #: The same as the kernel's LLVM function has them, a memref as its descriptor's words.
    parameters: list[KernelParameter]
    #: The address of an array of the addresses of ``parameters``.
    vector: int


class Memory(NamedTuple):
    """Where a host gets memory that its kernels see, too. Nothing of it may be freed before the host returns."""

    allocate: Callable[[int], int]
    release: Callable[[int], None]


def joined(extents: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the memory of all extents. Those that overlap are one, so that a kernel sees one copy of it."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(extents):
        if found and begin < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def copy_back(extent: tuple[int, int], copy: int) -> None:
    """Copy memory from a device's copy of it, if a kernel changed it: constants of the host are in pages that cannot be written."""
    begin, end = extent
    changed = ctypes.string_at(copy, end - begin)
    if changed != ctypes.string_at(begin, end - begin):
        ctypes.memmove(begin, changed, end - begin)


def take(action: Action[Any], part: str) -> str:
    """Return the path of a step's input, or, if that is a program, of its part."""
    path = action.inputs["ir"]
    return unpack(path, _FOLDER)[part] if action.params["kind"] == KIND else path


def give(action: Action[Any], part: str, *more: str, without: str = "") -> None:
    """Write the file ``part`` as a step's output; if its input is a program, the program with this file and ``more``."""
    if action.params["kind"] != KIND:
        shutil.copyfile(part, action.outputs["out"])
        return
    parts = unpack(action.inputs["ir"], _FOLDER)
    parts.pop(without, None)
    pack(action.outputs["out"], parts | {file: file for file in (part, *more)})


class GpuProgram:
    """A program that is ready to be called. ``parts``: the paths of its files by name."""

    def __init__(self, path: str) -> None:
        self.parts = unpack(path, _FOLDER)
        self.signatures: dict[str, list[str]] = json.loads(Path(self.parts[SIGNATURES]).read_text(encoding="utf-8"))

    def call(self, action: Action[Any], launch: Callable[[Launch], None], memory: Memory | None = None) -> None:
        """Call the program with ``arg-…`` of a target's action, and write ``out-…``.

        ``launch`` runs a kernel. ``memory`` is for devices that do not see the memory of this process; without it, it is C's. What
        either raises passes through.
        """
        ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
        try:
            host = ctypes.CDLL(str(Path(self.parts[HOST]).absolute()))
        except OSError as error:
            raise ActionFailed(f"the host code does not load: {error}") from error
        errors: list[BaseException] = []

        def launched(kernel: bytes, grid: Any, block: Any, shared: int, vector: Any, count: int) -> None:
            # APIs refuse a launch without a point. What follows an error has no effect.
            if not errors and all(grid[:3]) and all(block[:3]):
                launch(self._launch(kernel.decode(), grid[:3], block[:3], shared, vector, count))

        c = _memory_of_c()
        memory = memory or c
        functions = {
            "launch": _LAUNCH(_kept(errors, launched, None)),
            "allocate": _ALLOCATE(_kept(errors, memory.allocate, c.allocate)),
            "release": _RELEASE(_kept(errors, memory.release, None)),
            "copy": _COPY(_kept(errors, _copy, None)),
        }
        for name, function in functions.items():
            ctypes.c_void_p.in_dll(host, f"matrix_{name}").value = ctypes.cast(function, ctypes.c_void_p).value
        memrefs.call_main(action, host)
        if errors:
            raise errors[0]

    def _launch(
        self, kernel: str, grid: Sequence[int], block: Sequence[int], shared: int, vector: Any, count: int
    ) -> Launch:
        """Return a launch with its arguments, which the host passes as the words of descriptors."""
        places = iter(vector[:count])
        arguments: list[Memref | bytes] = []
        parameters: list[KernelParameter] = []
        for written in self.signatures[kernel]:
            rank, element = _type_of(kernel, written)
            if rank is None:
                parameters.append(KernelParameter(next(places), _BYTES[element]))
                arguments.append(ctypes.string_at(parameters[-1].address, parameters[-1].bytes))
                continue
            descriptor = [KernelParameter(next(places), 8, pointer=at < 2) for at in range(3 + 2 * rank)]
            words = [ctypes.c_int64.from_address(each.address).value for each in descriptor]
            sizes, strides = tuple(words[3 : 3 + rank]), tuple(words[3 + rank :])
            arguments.append(Memref(words[0], words[1], words[2], sizes, strides, element))
            parameters += descriptor
        where = ctypes.cast(vector, ctypes.c_void_p).value or 0
        return Launch(kernel, tuple(grid), tuple(block), shared, arguments, parameters, where)


def _kept(
    errors: list[BaseException], function: Callable[..., Any], otherwise: Callable[..., Any] | None
) -> Callable[..., Any]:
    """Return a function that the host may call: exceptions, which cannot pass through its frames, go to ``errors``.

    ``otherwise`` takes the place of a call that failed.
    """

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised when the host returns
            errors.append(error)
            return otherwise(*arguments) if otherwise else None

    return call


def _type_of(kernel: str, written: str) -> tuple[int | None, str]:
    """Return the rank and the element type of an argument; the rank is None for a scalar."""
    memref = _MEMREF.match(written)
    rank, element = (memref[1].count("x"), memref[2]) if memref else (None, written)
    if element not in _BYTES:
        passed = ", ".join(_BYTES)
        raise ActionFailed(
            f"kernel {kernel} has an argument of type {written}; hosts pass memrefs and scalars of {passed}"
        )
    return rank, element


def _memory_of_c() -> Memory:
    c = ctypes.CDLL(None)
    c.malloc.restype, c.malloc.argtypes = ctypes.c_void_p, [ctypes.c_int64]
    c.free.restype, c.free.argtypes = None, [ctypes.c_void_p]
    return Memory(c.malloc, c.free)


def _copy(element: int, source: Any, target: Any) -> None:
    """Copy between unranked memrefs, for ``memrefCopy``: each is a rank and the address of a descriptor."""
    import numpy

    views = []
    for unranked in (source, target):
        words = (ctypes.c_int64 * (3 + 2 * unranked[0])).from_address(unranked[1])
        views.append(memrefs.view(words[:], numpy.dtype(f"V{element}")))
    views[1][...] = views[0]
