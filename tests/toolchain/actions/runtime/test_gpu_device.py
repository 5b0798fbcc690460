"""The driver of a GPU, in place of which a small library in C checks how it is called and fails on demand."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
from pathlib import Path
from typing import Any

import numpy
import pytest

from mlir_matrix.actions.contract import ActionFailed, MachineFailed, read_metrics
from mlir_matrix.actions.runtime.gpu_device import GpuDevice
from mlir_matrix.actions.runtime.gpu_program import KernelParameter, Launch, Memref
from support.machine import needs

#: Its only kernel adds the second memref of rank 1, from its offset and by its stride, to the first one: one element a block.
DRIVER = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int fail_init, fail_context, fail_memory, fail_load, fail_launch, fail_wait, living;

int PREFIX(Init)(unsigned flags) { return fail_init; }
int PREFIX(DeviceGet)(int *device, int number) { *device = number; return 0; }
int PREFIX(DeviceGetName)(char *name, int size, int device) { strncpy(name, "Small GPU", size); return 0; }
int cuGetErrorName(int code, const char **name) { *name = "CUDA_ERROR_OF_TEST"; return 0; }
int hipDrvGetErrorName(int code, const char **name) { *name = "hipErrorOfTest"; return 0; }
int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) { return flags != 4; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &living; return fail_context; }
int cuCtxSetCurrent(void *context) { return context != &living; }
int hipSetDevice(int device) { return fail_context; }
int hipSetDeviceFlags(unsigned flags) { return flags != 4; }

static int allocate(void **memory, size_t size) {
  *memory = malloc(size);
  living++;
  return fail_memory;
}
static int release(void *memory) {
  free(memory);
  living--;
  return 0;
}
int cuMemAllocManaged(void **memory, size_t size, unsigned flags) { return allocate(memory, size); }
int hipMallocManaged(void **memory, size_t size, unsigned flags) { return allocate(memory, size); }
int cuMemFree_v2(void *memory) { return release(memory); }
int hipFree(void *memory) { return release(memory); }

int PREFIX(ModuleLoadDataEx)(void **module, const char *code, unsigned count, int *options, void **values) {
  if (count != 2 || options[0] != 5 || options[1] != 6) return 1;
  strcpy(values[0], fail_load ? "line 3: unknown word" : "");
  *module = (void *)code;
  return fail_load;
}
int PREFIX(ModuleGetFunction)(void **function, void *module, const char *name) {
  *function = allocate;
  return strcmp(name, "add") ? 500 : 0;
}
static int launch(void *function, unsigned blocks, unsigned threads, void **values) {
  float *sum = *(float **)values[1], *part = *(float **)values[6];
  int64_t offset = *(int64_t *)values[7], stride = *(int64_t *)values[9];
  float scale = *(float *)values[10];
  if (function != allocate || threads != 1) return 1;
  for (unsigned i = 0; i < blocks; i++) sum[i] += scale * part[offset + i * stride];
  return fail_launch;
}
int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c, unsigned shared, void *stream,
                   void **values, void **extra) {
  return extra || stream || y * z * b * c != 1 ? 1 : launch(f, x, a, values);
}
int hipModuleLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c, unsigned shared,
                          void *stream, void **values, void **extra) {
  return extra || stream || y * z * b * c != 1 ? 1 : launch(f, x, a, values);
}
int cuCtxSynchronize(void) { return fail_wait; }
int hipDeviceSynchronize(void) { return fail_wait; }
"""
pytestmark = needs("cc")


@pytest.fixture(scope="module", params=["cuda", "hip"])
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The name of a driver, and the path of its library."""
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    prefix = f"-DPREFIX(name)={'cu' if request.param == 'cuda' else 'hip'}##name"
    words = ["cc", "-shared", "-fPIC", "-O1", prefix, "driver.c", "-o", "driver.so"]
    subprocess.run(words, cwd=folder, check=True)
    return request.param, folder / "driver.so"


@pytest.fixture
def failing(driver: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A function by which calls of the library fail, with the error's number."""
    monkeypatch.chdir(tmp_path)
    library = ctypes.CDLL(str(driver[1]))
    names = ("init", "context", "memory", "load", "launch", "wait")

    def set_to(**codes: int) -> None:
        for name in names:
            ctypes.c_int.in_dll(library, f"fail_{name}").value = codes.get(name, 0)

    set_to()
    yield set_to
    set_to()


def launch_of(values: list[Any], arguments: list[Memref | bytes]) -> tuple[Launch, Any]:
    """Return a launch with these parameters, and what must live as long."""
    pointers = {at for at, value in enumerate(values) if isinstance(value, ctypes.c_void_p)}
    places = [ctypes.addressof(value) for value in values]
    vector = (ctypes.c_void_p * len(places))(*places)
    parameters = [
        KernelParameter(place, ctypes.sizeof(value), at in pointers)
        for at, (place, value) in enumerate(zip(places, values, strict=True))
    ]
    found = Launch("add", (4, 1, 1), (1, 1, 1), 0, arguments, parameters, ctypes.addressof(vector))
    return found, (vector, values)


@pytest.mark.usefixtures("failing")
def test_a_launch_gets_descriptors_and_memory_of_the_host_is_copied(driver: tuple[str, Path]) -> None:
    api, path = driver
    device = GpuDevice(api, str(path))
    assert read_metrics()["device"].startswith("Small GPU, driver ")
    device.load(b"code", ["add"])
    # The sum is in the device's memory; what is added, each second element from the third, is not.
    place = device.allocate(16)
    total = (ctypes.c_float * 4).from_address(place)
    total[:] = [1, 2, 3, 4]
    Path("constants").write_bytes(numpy.arange(12, dtype="f4").tobytes())
    with open("constants", "rb") as file:
        # As constants of the host, they cannot be written.
        x = numpy.frombuffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), "f4")
    whole = x.ctypes.data
    values: list[Any] = [ctypes.c_void_p(place), ctypes.c_void_p(place), *map(ctypes.c_int64, (0, 4, 1))]
    # The host's constants have no address of an allocation.
    values += [ctypes.c_void_p(0xDEADBEEF), ctypes.c_void_p(whole), *map(ctypes.c_int64, (2, 4, 2)), ctypes.c_float(10)]
    arguments = [
        Memref(place, place, 0, (4,), (1,), "f32"),
        Memref(0xDEADBEEF, whole, 2, (4,), (2,), "f32"),
        bytes(ctypes.c_float(10)),
    ]
    found, _alive = launch_of(values, arguments)
    device.run(found)
    assert total[:] == [21, 42, 63, 84]
    # The kernel has read a copy, which is freed.
    assert values[6].value != whole
    assert ctypes.c_int.in_dll(ctypes.CDLL(str(path)), "living").value == 1
    device.free(place)
    assert ctypes.c_int.in_dll(ctypes.CDLL(str(path)), "living").value == 0


@pytest.mark.parametrize(
    ("codes", "error", "said"),
    [
        ({"init": 100}, MachineFailed, "the GPU cannot be used: .*Init: .*the driver finds no GPU"),
        ({"init": 999}, MachineFailed, "the GPU cannot be used: .*Init: "),
        ({"context": 2}, MachineFailed, "the GPU has no free memory, which other processes may use"),
        ({"memory": 2}, MachineFailed, "the GPU has no free memory"),
        ({"load": 209}, MachineFailed, "the kernels are compiled for another GPU"),
        ({"load": 218}, ActionFailed, "the GPU's driver refuses: .*ModuleLoadDataEx: "),
        ({"launch": 2}, MachineFailed, "the GPU has no free memory"),
        ({"launch": 701}, ActionFailed, "the GPU's driver refuses: .*LaunchKernel: "),
        ({"wait": 700}, ActionFailed, "the GPU's driver refuses: .*Synchronize: "),
        ({"wait": 214}, MachineFailed, "the memory of the GPU is damaged"),
    ],
)  # fmt: skip
def test_who_is_to_blame_for_an_error(
    driver: tuple[str, Path], failing: Any, codes: dict[str, int], error: type[Exception], said: str
) -> None:
    failing(**codes)
    with pytest.raises(error, match=said) as caught:
        use(*driver)
    if codes.get("load") == 218:
        assert getattr(caught.value, "diagnostics", "") == "line 3: unknown word"


def use(api: str, path: Path) -> None:
    """Do everything that a run does."""
    device = GpuDevice(api, str(path))
    device.load(b"code", ["add"])
    place = device.allocate(64)
    memref = Memref(place, place, 0, (4,), (1,), "f32")
    words: list[Any] = [ctypes.c_void_p(place), ctypes.c_void_p(place), *map(ctypes.c_int64, (0, 4, 1))]
    more: list[Any] = [ctypes.c_void_p(place), ctypes.c_void_p(place), *map(ctypes.c_int64, (0, 4, 1))]
    found, _alive = launch_of([*words, *more, ctypes.c_float(1)], [memref, memref, bytes(4)])
    device.run(found)


def test_a_driver_that_lacks_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    library = str(tmp_path / "libcuda.so.1")
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", library], check=True)
    with pytest.raises(MachineFailed, match=rf"{library} has no function cuInit; install a newer driver of the GPU"):
        GpuDevice("cuda", library)


def test_a_machine_without_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "libcuda.so.1").write_text("no library")
    with pytest.raises(MachineFailed, match=r"the driver of the GPU does not load: .*"):
        GpuDevice("cuda", str(tmp_path / "libcuda.so.1"))
