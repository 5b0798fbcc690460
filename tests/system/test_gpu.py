"""GPUs without a GPU: numbers by lavapipe and an interpreter, and code that is compiled and checked."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from support.workspace import Workspace

#: One test of each way, with the environments that it needs beside the usual ones.
RUN = {
    "mlir/iree-vulkan/vulkan-lavapipe/transpose": "iree-vulkan",
    "mlir/linalg-gpu/spirv-lavapipe/mlp": "lavapipe",
    "mlir/linalg-gpu/xevm-pocl/softmax": "pocl",
    "triton/triton/triton-interpreter/softmax": "triton-torch",
}
COMPILED = {
    "mlir/linalg-gpu/nvptx-sm90-cubin/broadcast_add": "gpu",
    "mlir/linalg-gpu/amdgcn-gfx942-hsaco/broadcast_add": "gpu",
    "mlir/linalg-gpu/spirv-vulkan/broadcast_add": "gpu",
    "mlir/linalg-gpu/xevm-pvc/broadcast_add": "gpu",
    "triton/triton/triton-sm90/broadcast_add": "triton",
}
KERNEL = """\
module attributes {gpu.container_module} {
  gpu.module @main_kernel {
    gpu.func @main_kernel(%x: memref<4xf32>, %y: memref<4xf32>) kernel {
      %i = gpu.block_id x
      %a = memref.load %x[%i] : memref<4xf32>
      %b = memref.load %y[%i] : memref<4xf32>
      %p = arith.mulf %a, %a : f32
      %s = arith.addf %p, %b : f32
      memref.store %s, %y[%i] : memref<4xf32>
      gpu.return
    }
  }
}
"""
#: A header with the magic number, version 1.2 and one identifier; the capabilities Addresses and Kernel; OpenCL's memory model.
EMPTY_SPIRV = (0x07230203, 0x10200, 0, 1, 0, 0x00020011, 4, 0x00020011, 6, 0x0003000E, 2, 2)
STORE = """\
module attributes {gpu.container_module} {
  func.func @main() -> memref<4xf32> {
    %one = arith.constant 1 : index
    %four = arith.constant 4 : index
    %value = arith.constant 2.0 : f32
    %y = memref.alloc() : memref<4xf32>
    gpu.launch_func @main_kernel::@main_kernel blocks in (%four, %one, %one) threads in (%one, %one, %one)
      args(%value : f32, %y : memref<4xf32>)
    return %y : memref<4xf32>
  }
  gpu.module @main_kernel {
    gpu.func @main_kernel(%value: f32, %y: memref<4xf32>) kernel {
      %i = gpu.block_id x
      memref.store %value, %y[%i] : memref<4xf32>
      gpu.return
    }
  }
}
"""


def test_what_runs_and_what_only_compiles(workspace: Workspace, environments: Any) -> None:
    for name in {*RUN.values(), *COMPILED.values()}:
        environments.require(name)
    report = workspace.run(*RUN, *COMPILED)
    assert report.outcomes == dict.fromkeys((*RUN, *COMPILED), "pass")
    assert {name for name, test in report.tests.items() if test.get("compile_only")} == COMPILED.keys()


@pytest.mark.parametrize(("contraction", "fused"), [("off", False), ("fast", True)])
def test_products_and_sums_become_one_only_if_they_may(
    environments: Any, tmp_path: Path, contraction: str, fused: bool
) -> None:
    base = "convert-scf-to-cf,{},reconcile-unrealized-casts"
    for number, (passes, triple, cpu, instruction) in enumerate(
        [
            ("convert-gpu-to-nvvm", "nvptx64-nvidia-cuda", "sm_90", "fma.rn.f32"),
            ("convert-gpu-to-rocdl{chipset=gfx942}", "amdgcn-amd-amdhsa", "gfx942", "v_fma"),
        ]
    ):
        parameters = {
            "passes": base.format(passes), "triple": triple, "cpu": cpu, "opt-level": 2, "fp-contract": contraction,
        }  # fmt: skip
        done = environments.perform(
            "gpu", "recipes/steps/gpu-llc/tool.py", tmp_path / str(number), stage="codegen",
            params={"parameters": parameters, "kind": "gpu"}, inputs={"ir": KERNEL}, outputs={"out": "kernel.s"},
        )  # fmt: skip
        assert done.ok, done.outcome
        assert (instruction in done.text("out")) == fused


def test_a_product_in_triton_says_how_precise_it_is(environments: Any, tmp_path: Path) -> None:
    directives = Path(__file__).parents[2] / "recipes/steps/triton-ieee/precision.check"
    products = {"tl.dot(a, b, input_precision='ieee')": "ok", "tl.dot(a, b)": "mismatch"}
    for number, (product, outcome) in enumerate(products.items()):
        kernel = f"@triton.jit\ndef workload(x, y):\n    c = {product}\n    tl.store(y, c)\nlaunch = {{'grid': (1,)}}\n"
        done = environments.perform(
            "filecheck", "check", tmp_path / str(number), params={}, inputs={"ir": kernel, "directives": directives},
            outputs={"ir": "kernel.py"}, stage="judge",
        )  # fmt: skip
        assert done.outcome["outcome"] == outcome


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("(x, y,", "(y, x,"), "declared inputs and outputs (x, y), the source has (y, x)"),
        (('"BLOCK"', '"BLOCKS"'), "declared constants (BLOCK, N), the source has (BLOCKS, N)"),
    ],
)
def test_a_kernel_that_is_not_what_its_workload_declares(
    environments: Any, tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    source = (Path(__file__).parents[2] / "matrix/workloads/softmax/triton.py").read_text().replace(*change)
    tensor = {"shape": [4, 8], "dtype": "f32", "dynamic": []}
    params = {"inputs": [{"name": "x", **tensor}], "outputs": [{"name": "y", **tensor}], "dims": {"M": 4, "N": 8}}
    done = environments.perform(
        "triton", "matrix/frameworks/triton/importer.py", tmp_path / "it", stage="import",
        params={**params, "kind": "triton-kernel", "parameters": {}}, inputs={"source": source}, outputs={"out": "kernel.py"},
    )  # fmt: skip
    assert (done.outcome["outcome"], done.outcome["reason"]) == ("import-failed", said)


@pytest.fixture(scope="module")
def program(environments: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The parts of a program that stores 2 in each of four elements, but for its SPIR-V."""
    folder, root = tmp_path_factory.mktemp("program"), Path(__file__).parents[2]
    done = environments.perform(
        "gpu", "recipes/steps/gpu-host/tool.py", folder / "host", stage="codegen",
        params={"parameters": {"opt-level": 2}, "kind": "gpu", "programs": ["ziglang"]},
        inputs={"ir": STORE, "runtime.c": root / "recipes/steps/gpu-host/runtime.c"}, outputs={"out": "program.zip"},
    )  # fmt: skip
    assert done.ok, done.outcome
    with zipfile.ZipFile(done.folder / "program.zip") as parts:
        return {name: parts.read(name) for name in parts.namelist()}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "clCreateProgramWithIL fails with OpenCL's error -30"),
        (EMPTY_SPIRV, "clCreateKernel fails with OpenCL's error -46"),
        ((*EMPTY_SPIRV, 0x0001FFFF), "PoCL does not build the kernels"),
    ],
    ids=["no SPIR-V", "no kernel", "unknown instruction"],
)
def test_kernels_that_pocl_does_not_take(
    environments: Any, tmp_path: Path, program: dict[str, bytes], words: tuple[int, ...], said: str
) -> None:
    with zipfile.ZipFile(tmp_path / "program.zip", "w") as parts:
        for name, content in {**program, "0.spv": struct.pack(f"<{len(words)}I", *words)}.items():
            parts.writestr(name, content)
    params = {
        "parameters": {},
        "kind": "gpu-program",
        "arguments": [],
        "results": [{"name": "y", "shape": [4], "dtype": "f32"}],
    }
    done = environments.perform(
        "pocl", "matrix/targets/xevm-pocl/run.py", tmp_path / "it", stage="run", params=params,
        inputs={"artifact": tmp_path / "program.zip"}, outputs={"out-y": "y.npy"},
    )  # fmt: skip
    assert done.outcome["outcome"] == "run-failed", done.outcome
    assert said in done.outcome["reason"]
