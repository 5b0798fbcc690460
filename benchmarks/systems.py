"""What each system costs: lines of catalog, seconds of its first test, seconds of the same again, megabytes of its environments.

    benchmarks/run systems

Cold: packages are there, the action cache is empty, C libraries are built. Warm: nothing has changed. Lines are those of the
system's own files; environments include what systems share. Prints the table of docs/systems.md.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time

from _matrix import ROOT, matrix

from mlir_matrix.base.names import name_glob

#: System: the test that shows it, and its own files and folders.
ROWS: dict[str, tuple[str, tuple[str, ...]]] = {
    "IREE, CPU": ("mlir/iree-llvm-cpu/iree-local/mlp", ("iree-llvm-cpu", "iree-local", "vmfb")),
    "IREE, VMVX": ("mlir/iree-vmvx/iree-local/mlp", ("iree-vmvx",)),
    "IREE, Vulkan": ("mlir/iree-vulkan/vulkan-lavapipe/mlp", ("iree-vulkan", "vulkan-lavapipe", "vmfb-vulkan", "lavapipe")),
    "IREE, CUDA": ("mlir/iree-cuda/iree-cuda-sm80/mlp", ("iree-cuda", "iree-cuda-sm80", "vmfb-cuda")),
    "IREE, ROCm": ("mlir/iree-rocm/iree-rocm-gfx942/mlp", ("iree-rocm", "iree-rocm-gfx942", "vmfb-rocm")),
    "XLA": ("jax/xla-cpu/xla-cpu/mlp", ("xla-cpu", "xla-executable")),
    "ONNX Runtime": ("onnx/onnxruntime/onnxruntime-cpu/mlp", ("onnxruntime", "onnxruntime-cpu")),
    "TVM": ("onnx/tvm-llvm/tvm-cpu/mlp", (
        "tvm", "tvm-llvm", "tvm-cpu", "tvm-library", "relax", "onnx-to-relax", "torch-to-relax", "tvm-torch")),
    "TorchInductor": ("pytorch/torch-inductor/torch-aoti/mlp", ("torch-inductor", "torch-aoti", "aoti-package", "gcc")),
    "Halide": ("halide/native/x86_64/mlp", ("halide",)),
    "Triton": ("triton/triton/triton-interpreter/softmax", ("triton", "triton-interpreter", "triton-kernel", "triton-torch")),
    "Triton, NVIDIA": ("triton/triton/triton-sm90/softmax", ("triton-gpu", "triton-sm90")),
    "Triton, AMD": ("triton/triton/triton-gfx942/softmax", ("triton-gpu", "triton-gfx942")),
    "sparse_tensor": ("sparse/sparsifier/x86_64/csr_matmul", ("sparse", "sparsifier", "sparsify", "sparse-tensor")),
    "OpenMP": ("mlir/linalg-openmp/x86_64-openmp/mlp", (
        "linalg-openmp", "linalg-to-openmp", "openmp", "openmp-shared", "shared-openmp", "x86_64-openmp", "libomp", "shared")),
    "OpenCL on PoCL": (
        "mlir/linalg-gpu/xevm-pocl/mlp", ("linalg-gpu", "linalg-to-gpu", "gpu-host", "gpu-program", "xevm-pocl", "pocl")),
    "TOSA model": ("pytorch/tosa-model/tosa-model+precise/mlp", ("tosa-model", "tosa-serialize", "tosa-flatbuffer", "tosa-tools")),
    "PyTorch eager": ("pytorch/torch-eager/torch-eager/mlp", ("torch-eager", "torch-decompose")),
    "ONNX reference": ("onnx/onnx-reference/onnx-reference/mlp", ("onnx-reference", "onnx-opset")),
    "C, clang": ("c/native/x86_64/mlp", ("c", "clang", "native", "llvm-ir", "llvm-ir-import")),
    "Fortran, flang": ("fortran/native/x86_64/mlp", ("fortran", "flang", "hlfir", "hlfir-to-llvm-ir")),
    "TOSA text": ("tosa/tosa-loops/x86_64/matmul", ("frameworks/tosa",)),
    "StableHLO text": ("stablehlo/stablehlo-loops/x86_64/matmul", ("frameworks/stablehlo",)),
    "CIRCT": ("circt/circt-verilog/icarus/mac", ("circt", "circt-verilog", "hw", "hw-to-verilog", "verilog", "icarus", "iverilog")),
    **{name: (f"mlir/linalg-loops/{name}/mlp", (name.partition("+")[0],)) for name in (
        "x86_64-v1", "x86_64-v2", "x86_64-v3", "x86_64-v4", "aarch64", "aarch64-sve128", "aarch64-sve256", "aarch64-sve512",
        "riscv64", "riscv64-rvv", "wasm32", "wasm32+simd")},
    **{name: (f"mlir/linalg-gpu/{name}/mlp", (name,)) for name in (
        "nvptx-sm80", "nvptx-sm90", "nvptx-sm90-cubin", "amdgcn-gfx942", "amdgcn-gfx942-hsaco", "amdgcn-gfx1100", "xevm-pvc",
        "spirv-vulkan")},
}  # fmt: skip
_FOLDERS = (
    "matrix/frameworks", "matrix/targets", "recipes/steps", "recipes/pipelines", "recipes/kinds", "toolchains/components",
    "toolchains/environments",
)  # fmt: skip


def lines(names: tuple[str, ...]) -> int:
    """Count the lines of a system's files."""
    total = 0
    for folder in _FOLDERS:
        for name in names:
            where, _, own = name.rpartition("/")
            if where and not folder.endswith(where):
                continue
            path = ROOT / folder / own
            files = path.glob("*.*") if path.is_dir() else [path.with_name(f"{own}.yaml")]
            total += sum(len(file.read_text().splitlines()) for file in files if file.is_file())
    return total


def megabytes(test: str) -> int:
    """Return the megabytes of the environments of a test."""
    plan = json.loads(matrix("plan", test, "--format", "json"))
    return sum(each["bytes"]["disk"] for each in plan["environments"]) // 1_000_000


def timed(test: str, cache: str) -> tuple[float, str]:
    """Return the seconds of a run, and the outcome."""
    begin = time.perf_counter()
    text = matrix("run", test, "--cache-dir", cache, "--quiet", "--format", "json")
    return time.perf_counter() - begin, str(json.loads(text)["tests"][0]["outcome"])


def main() -> int:
    wanted = name_glob(sys.argv[1]) if len(sys.argv) > 1 else None
    failed = False
    print("| system | test | lines | cold, s | warm, s | MB |\n|---|---|---|---|---|---|")
    for name, (test, own) in ROWS.items():
        if wanted and not wanted.matches(name):
            continue
        # Builds and installs what is missing.
        matrix("run", test, "--quiet")
        with tempfile.TemporaryDirectory() as cache:
            cold, outcome = timed(test, cache)
            warm, _ = timed(test, cache)
        failed |= outcome not in ("pass", "skipped")
        note = "" if outcome == "pass" else f" {outcome}"
        print(f"| {name} | `{test}` | {lines(own)} | {cold:.1f} | {warm:.2f} | {megabytes(test)} |{note}", flush=True)
    return int(failed)


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "200")
    raise SystemExit(main())
