"""Programs for GPUs: the signatures of kernels, and their parts in steps that take IR, too."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions.contract import Action
from mlir_matrix.actions.runtime import gpu_program
from mlir_matrix.actions.runtime.prepared import pack, unpack

TOOL: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[4] / "recipes/steps/gpu-host/tool.py"))
SCALARS = ["index", "i1", "i8", "i16", "i32", "i64", "bf16", "f16", "f32", "f64"]
LAYOUTS = ["", ", strided<[?, 1], offset: ?>", ", affine_map<(d0, d1) -> (d1, d0)>", ", #map", ", 1"]
TYPES = st.sampled_from(SCALARS) | st.builds(
    lambda sizes, element, layout: f"memref<{''.join(f'{size}x' for size in sizes)}{element}{layout}>",
    st.lists(st.sampled_from(["?", "1", "47"]), max_size=5), st.sampled_from(SCALARS), st.sampled_from(LAYOUTS),
)  # fmt: skip
AFTER = ["kernel {", "workgroup(%arg9: memref<32xf32, #gpu.address_space<workgroup>>) private() kernel {",
         "kernel attributes {known_block_size = array<i32: 1, 1, 1>} {"]  # fmt: skip


def module(name: str, types: list[str], after: str) -> str:
    arguments = ", ".join(f"%arg{at}: {each}" for at, each in enumerate(types))
    body = "      scf.for %i = %a to %b step %c {\n      }\n      gpu.return\n    }\n"
    return f"  gpu.module @{name} {{\n    gpu.func @main_kernel({arguments}) {after}\n{body}  }}\n"


@given(st.lists(st.tuples(st.lists(TYPES, max_size=6), st.sampled_from(AFTER)), min_size=1, max_size=4))
def test_signatures_are_those_that_are_written(kernels: list[tuple[list[str], str]]) -> None:
    modules = [module(f"k{at}", types, after) for at, (types, after) in enumerate(kernels)]
    text = f"module {{\n  func.func @main() {{\n    return\n  }}\n{''.join(modules)}}}\n"
    found = {match[1]: TOOL["signature"](match[0]) for match in TOOL["MODULE"].finditer(text)}
    assert found == {f"k{at}": types for at, (types, _) in enumerate(kernels)}
    rewritten = TOOL["MODULE"].sub(TOOL["BINARY"], text)
    assert [line.split()[1] for line in rewritten.splitlines() if "gpu." in line] == [f"@{name}" for name in found]
    assert "gpu.func" not in rewritten


@pytest.mark.parametrize("kind", ["gpu", gpu_program.KIND])
def test_a_step_takes_ir_or_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (gpu_program.HOST, gpu_program.MODULE, "kernels.s", "0.spv"):
        Path(name).write_text(f"the text of {name}")
    if kind == gpu_program.KIND:
        pack("ir", {name: name for name in (gpu_program.HOST, gpu_program.MODULE)})
    else:
        Path("ir").write_text(f"the text of {gpu_program.MODULE}")
    action = Action(params={"kind": kind}, inputs={"ir": "ir"}, outputs={"out": "out"})
    assert Path(gpu_program.take(action, gpu_program.MODULE)).read_text() == f"the text of {gpu_program.MODULE}"
    gpu_program.give(action, "kernels.s", "0.spv", without=gpu_program.MODULE)
    if kind == gpu_program.KIND:
        texts = {name: Path(file).read_text() for name, file in unpack("out", tmp_path / "parts").items()}
        assert texts == {name: f"the text of {name}" for name in (gpu_program.HOST, "kernels.s", "0.spv")}
    else:
        assert Path("out").read_text() == "the text of kernels.s"
