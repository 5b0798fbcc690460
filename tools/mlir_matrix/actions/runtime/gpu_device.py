"""Load and launch kernels by the driver of a GPU, CUDA's or HIP's, whose functions correspond.

Memory is managed: both the host and the device read and write it, at one address. Each launch waits for its kernel.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Sequence
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p
from typing import Any

from mlir_matrix.actions.contract import ActionFailed, MachineFailed, add_metrics
from mlir_matrix.actions.runtime.gpu_program import Launch, Memory, Memref, copy_back, joined
from mlir_matrix.actions.sandbox.gpu_driver import DRIVERS, driver_release, library_path

_ATTACH_GLOBAL = 1
#: A host thread that waits sleeps, so that the time limit sees a kernel that never ends.
_BLOCKING_SYNC = 4
_JIT_LOG, _JIT_LOG_SIZE = 5, 6
_LOG_BYTES = 16 << 10
#: Bytes of dynamic shared memory that a kernel may have without this attribute, which allows more.
_SHARED_BYTES, _MOST_SHARED_BYTES = 48 << 10, 8
_OUT_OF_MEMORY = 2
_OTHER_CODE = "the kernels are compiled for another GPU"
#: Errors for which no program is to blame: the numbers are the same in cuda.h and in hip_runtime_api.h.
_OF_MACHINE = {
    _OUT_OF_MEMORY: "the GPU has no free memory, which other processes may use",
    3: "the driver is shutting down", 46: "another process has the GPU for itself", 100: "the driver finds no GPU",
    101: "the driver finds no GPU", 209: _OTHER_CODE, 214: "the memory of the GPU is damaged",
    222: "the driver is too old for this PTX", 802: "the GPU is not ready",
    803: "the driver's library does not fit its kernel module", 804: "the driver's library does not support this GPU",
}  # fmt: skip


#: The functions of each driver, by what they do.
_FUNCTIONS = {
    "cuda": {
        "init": "cuInit", "device": "cuDeviceGet", "name": "cuDeviceGetName", "error": "cuGetErrorName",
        "allocate": "cuMemAllocManaged", "free": "cuMemFree_v2", "load": "cuModuleLoadDataEx", "function": "cuModuleGetFunction",
        "launch": "cuLaunchKernel", "wait": "cuCtxSynchronize", "attribute": "cuFuncSetAttribute",
    },
    "hip": {
        "init": "hipInit", "device": "hipDeviceGet", "name": "hipDeviceGetName", "error": "hipDrvGetErrorName",
        "allocate": "hipMallocManaged", "free": "hipFree", "load": "hipModuleLoadDataEx", "function": "hipModuleGetFunction",
        "launch": "hipModuleLaunchKernel", "wait": "hipDeviceSynchronize", "attribute": "hipFuncSetAttribute",
    },
}  # fmt: skip


class GpuDevice:
    """The first GPU that a driver, ``cuda`` or ``hip``, gives to this process."""

    def __init__(self, api: str, library: str = "") -> None:
        """Raise MachineFailed if there is no driver, or if it does not start. ``library``: its path, instead of the machine's."""
        self.path = library or library_path(DRIVERS[api])
        if not self.path:
            raise MachineFailed(f"this machine has no {DRIVERS[api].library}; install the driver of its GPU")
        # It would keep compiled kernels in a home.
        os.environ["CUDA_CACHE_DISABLE"] = "1"
        try:
            self._library = ctypes.CDLL(self.path)
        except OSError as error:
            raise MachineFailed(f"the driver of the GPU does not load: {error}") from error
        self._names = _FUNCTIONS[api]
        self._kernels: dict[str, c_void_p] = {}
        self._managed = set[int]()
        self._start(self._names["init"], c_uint(0))
        device = c_int()
        self._start(self._names["device"], byref(device), 0)
        if api == "cuda":
            self._start("cuDevicePrimaryCtxSetFlags_v2", device, c_uint(_BLOCKING_SYNC))
            context = c_void_p()
            self._start("cuDevicePrimaryCtxRetain", byref(context), device)
            self._start("cuCtxSetCurrent", context)
        else:
            self._start("hipSetDevice", device)
            self._start("hipSetDeviceFlags", c_uint(_BLOCKING_SYNC))
        text = ctypes.create_string_buffer(256)
        self._start(self._names["name"], text, len(text), device)
        release = driver_release(DRIVERS[api]) or "of an unknown release"
        add_metrics({"device": f"{text.value.decode('utf-8', 'replace')}, driver {release}"})

    def allocate(self, size: int) -> int:
        """Return the address of new memory. Raise MachineFailed if there is none."""
        made = c_void_p()
        self._start(self._names["allocate"], byref(made), c_size_t(max(size, 1)), c_uint(_ATTACH_GLOBAL))
        address = made.value or 0
        self._managed.add(address)
        return address

    def free(self, address: int) -> None:
        """Free memory of :meth:`allocate`; other memory stays."""
        if address in self._managed:
            self._managed.remove(address)
            self._start(self._names["free"], c_void_p(address))

    @property
    def memory(self) -> Memory:
        """The device's memory, for the host of a program."""
        return Memory(self.allocate, self.free)

    def load(self, code: bytes, kernels: Iterable[str]) -> None:
        """Load code and find these kernels in it. Raise ActionFailed, with the driver's messages, if it refuses them."""
        module, log = c_void_p(), ctypes.create_string_buffer(_LOG_BYTES)
        options = (c_int * 2)(_JIT_LOG, _JIT_LOG_SIZE)
        values = (c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        self._run(self._names["load"], byref(module), code + b"\0", c_uint(2), options, values, log=log)
        for name in kernels:
            self._kernels[name] = c_void_p()
            self._run(self._names["function"], byref(self._kernels[name]), module, name.encode())

    def run(self, launch: Launch) -> None:
        """Run a launch of a program. What is not in the device's memory, arguments and constants, is copied there and back."""
        foreign = [each.extent for each in launch.arguments if isinstance(each, Memref) and self._is_foreign(each)]
        copies: dict[tuple[int, int], int] = {}
        for begin, end in joined(foreign):
            copies[begin, end] = copy = self.allocate(end - begin)
            ctypes.memmove(copy, begin, end - begin)
        for parameter in launch.parameters:
            if not parameter.pointer:
                continue
            # The host writes the parameters anew for each launch.
            pointer = c_void_p.from_address(parameter.address)
            address = pointer.value or 0
            for (begin, end), copy in copies.items():
                if begin <= address < end:
                    pointer.value = copy + address - begin
        self.launch(launch.kernel, launch.grid, launch.block, launch.shared_bytes, c_void_p(launch.vector))
        for extent, copy in copies.items():
            copy_back(extent, copy)
            self.free(copy)

    def _is_foreign(self, argument: Memref) -> bool:
        return argument.allocated not in self._managed

    def launch(self, name: str, grid: Sequence[int], block: Sequence[int], shared_bytes: int, arguments: Any) -> None:
        """Launch a kernel and wait for it. ``arguments``: an array of pointers to the values of its parameters."""
        if shared_bytes > _SHARED_BYTES:
            self._run(self._names["attribute"], self._kernels[name], _MOST_SHARED_BYTES, c_int(shared_bytes))
        sizes = [c_uint(size) for size in (*grid, *block, shared_bytes)]
        self._run(self._names["launch"], self._kernels[name], *sizes, c_void_p(), arguments, c_void_p())
        self._run(self._names["wait"])

    def _start(self, function: str, *arguments: Any) -> None:
        """Call a function that no program makes fail."""
        code = self._function(function)(*arguments)
        if code:
            raise MachineFailed(f"the GPU cannot be used: {self._message(function, code)}")

    def _run(self, function: str, *arguments: Any, log: Any = None) -> None:
        """Call a function that fails if a program is wrong."""
        code = self._function(function)(*arguments)
        if code in _OF_MACHINE:
            raise MachineFailed(f"the GPU cannot run this: {self._message(function, code)}")
        if code:
            messages = log.value.decode("utf-8", "replace") if log else ""
            raise ActionFailed(f"the GPU's driver refuses: {self._message(function, code)}", diagnostics=messages)

    def _function(self, name: str) -> Any:
        """Return a function of the driver. Raise MachineFailed if its release is too old to have it."""
        try:
            return getattr(self._library, name)
        except AttributeError:
            raise MachineFailed(f"{self.path} has no function {name}; install a newer driver of the GPU") from None

    def _message(self, function: str, code: int) -> str:
        name = ctypes.c_char_p()
        self._function(self._names["error"])(code, byref(name))
        word = (name.value or b"error %d" % code).decode("utf-8", "replace")
        cause = f" ({_OF_MACHINE[code]})" if code in _OF_MACHINE else ""
        return f"{function}: {word}{cause}"
