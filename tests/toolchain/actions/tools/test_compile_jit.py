"""Kernels compiled in memory, and not called: what cannot be compiled fails at this stage, with a kernel's own words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.contract import ActionFailed
from mlir_matrix.actions.tools import compile_jit

#: The oldest, the last one with typed pointers, the last one with the runner's old name, and one with the new name.
RELEASES = ("15", "16", "19", "22")
#: Would not end well if it was called.
KERNEL = """\
module {
  llvm.func @abort()
  llvm.func @_mlir_ciface_main() {
    llvm.call @abort() : () -> ()
    llvm.return
  }
}
"""
#: An instruction of another machine, which the code generator of this one ends at.
ELSEWHERE = """\
module {
  llvm.func @_mlir_ciface_main(%a: i32) -> i32 {
    %0 = llvm.call_intrinsic "llvm.aarch64.crc32b"(%a, %a) : (i32, i32) -> i32
    llvm.return %0 : i32
  }
}
"""


@pytest.fixture
def compile_(environments: Any, library: Path, tmp_path: Path) -> Any:
    count = iter(range(100))

    def perform(ir: str, *, release: str = "22", **parameters: Any) -> Any:
        return environments.perform(
            f"mlir@llvm={release}" if release else "mlir", "compile_jit", tmp_path / str(next(count)),
            params={"parameters": parameters}, inputs={"ir": ir, "driver": library}, outputs={"ir": "kernel.mlir"},
            stage="codegen",
        )  # fmt: skip

    return perform


@pytest.mark.parametrize(("release", "level"), [*((release, 2) for release in RELEASES), ("22", 0), ("22", 3)])
def test_a_kernel_is_compiled_and_not_called(compile_: Any, release: str, level: int) -> None:
    done = compile_(KERNEL, release=release, **{"opt-level": level})
    assert done.ok, done.outcome
    assert done.text("ir") == compile_jit.with_entries(KERNEL)
    assert sorted(path.name for path in done.folder.iterdir()) == sorted(
        ["in", "action.json", "log.txt", "outcome.json", "kernel.mlir"]
    )


@pytest.mark.parametrize("release", ["19", "22"])
def test_a_crash_of_the_compiler_is_none_of_the_kernel(compile_: Any, release: str) -> None:
    done = compile_(ELSEWHERE, release=release)
    assert (done.outcome["outcome"], done.outcome["stage"], done.outcome["signal"]) == ("crashed", "codegen", "SIGABRT")
    assert "LLVM ERROR: Cannot select: intrinsic %llvm.aarch64.crc32b" in done.outcome["diagnostics"]
    assert str(done.folder) not in str(done.outcome)


@pytest.mark.parametrize("release", RELEASES)
def test_what_cannot_be_compiled(compile_: Any, release: str) -> None:
    done = compile_("module {\n  llvm.func @_mlir_ciface_main() {\n    nonsense\n  }\n}\n", release=release)
    assert done.outcome["outcome"] == "codegen-failed"
    assert done.outcome["reason"].startswith("the kernel cannot be compiled in memory: ")
    assert "custom op 'nonsense'" in done.outcome["reason"]
    assert done.outcome["diagnostics"].startswith('loc("kernel.mlir":3:5): error: ')
    assert str(done.folder) not in str(done.outcome)


@pytest.mark.parametrize("release", RELEASES)
def test_what_nobody_has(compile_: Any, release: str) -> None:
    """What the process of the compiler has of the kernel's names is no help: only libm, and what the driver shows."""
    wanted = ["nobody", "somebody", "npy_read"]
    calls = "".join(f"    llvm.call @{name}() : () -> ()\n" for name in wanted)
    declared = "".join(f"  llvm.func @{name}()\n" for name in wanted)
    done = compile_(
        f"module {{\n{declared}  llvm.func @_mlir_ciface_main() {{\n{calls}    llvm.return\n  }}\n}}\n", release=release
    )
    assert (done.outcome["outcome"], done.outcome["reason"]) == (
        "codegen-failed",
        "the kernel needs nobody, npy_read, somebody, which neither the driver nor libm has",
    )


@pytest.mark.parametrize("ir", ["", "module {\n}\n", "module {\n  llvm.func @_mlir_ciface_main()\n}\n"])
def test_a_kernel_without_its_interface(ir: str) -> None:
    with pytest.raises(ActionFailed, match="has no function _mlir_ciface_main"):
        compile_jit.with_entries(ir)


def test_the_entries_are_put_into_the_module() -> None:
    kernel = (
        "  llvm.func @_mlir_ciface_main(%x: !llvm.ptr) attributes {llvm.emit_c_interface} {\n    llvm.return\n  }\n"
    )
    rest = '}\n\n{-#\n  dialect_resources: {\n    builtin: {\n      a: "0x00"\n    }\n  }\n#-}\n'
    made = compile_jit.with_entries(f"module attributes {{a = 1}} {{\n{kernel}{rest}")
    assert made.startswith(f"module attributes {{a = 1}} {{\n{kernel}  llvm.func @matrix_drive")
    assert made.endswith(f"    llvm.return\n  }}\n{rest}")


def test_the_kernels_own_functions_are_renamed() -> None:
    """And nothing else of those names: not what it declares, no string."""
    lines = """\
  llvm.func @tanhf(f32) -> f32
  llvm.func linkonce_odr @round.1(%x: f32) -> f32 attributes {note = "\\22@main @round.1(x) {"} {
    %y = llvm.call @tanhf(%x) : (f32) -> f32
    llvm.return %y : f32
  }
  llvm.func @main(%x: f32) -> f32 {
    %y = llvm.call @round.1(%x) : (f32) -> f32
    llvm.return %y : f32
  }
  llvm.func @_mlir_ciface_main(%r: !llvm.ptr) attributes {llvm.emit_c_interface} {
    %p = llvm.mlir.addressof @main : !llvm.ptr
    llvm.return
  }
"""
    wanted = lines
    for old, new in (
        ("odr @r", "odr @kernel.r"),
        ("call @r", "call @kernel.r"),
        (" @main(", " @kernel.main("),
        ("of @m", "of @kernel.m"),
    ):
        wanted = wanted.replace(old, new)
    assert compile_jit.with_entries(f"module {{\n{lines}}}\n").startswith(
        f"module {{\n{wanted}  llvm.func @matrix_drive("
    )


@pytest.mark.parametrize("level", [4, -1, "2", True, 1.5])
def test_levels_that_do_not_exist_are_refused(compile_: Any, level: Any) -> None:
    done = compile_("", **{"opt-level": level})
    assert done.outcome["outcome"] == "codegen-failed"
    assert "must be 0, 1, 2 or 3" in done.outcome["reason"]


def test_an_environment_without_the_program(compile_: Any) -> None:
    """Is nobody's verdict. Plans do not come to this: such tests are unsupported."""
    done = compile_(KERNEL, release="")
    assert (done.outcome["outcome"], done.outcome["reason"]) == (
        "infra-error",
        "the environment has no program mlir-runner",
    )
