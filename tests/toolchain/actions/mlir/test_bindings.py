"""The adapter against every bindings package that an environment of the repository carries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.contract import ActionFailed
from mlir_matrix.actions.mlir import bindings
from mlir_matrix.environments.session import Session

#: Bindings package, and the environment that has it. The upstream distribution needs an index that the user names.
PACKAGES = [("torch_mlir", "mlir"), ("jaxlib.mlir", "jax"), ("mlir", "mlir-upstream")]

FOLDS = """
func.func @main(%x: i32) -> i32 {
  %one = arith.constant 1 : i32
  %two = arith.addi %one, %one : i32
  %y = arith.addi %x, %two : i32
  return %y : i32
}
"""


@pytest.fixture(params=PACKAGES, ids=lambda pair: str(pair[0]))
def package(request: pytest.FixtureRequest, current: Session) -> tuple[str, str]:
    root, environment = request.param
    found = current.environment(environment)
    if not hasattr(found, "missing"):
        pytest.skip(f"{environment}: {found.reason}")
    return root, environment


def passes(environments: Any, package: tuple[str, str], folder: Path, ir: str | bytes, pipeline: str) -> Any:
    root, environment = package
    return environments.perform(
        environment,
        "passes",
        folder,
        params={"passes": pipeline, "backend": "bindings", "bindings": root},
        inputs={"ir": ir},
        outputs={"ir": "out.mlir"},
    )


def test_passes_run(environments: Any, package: tuple[str, str], tmp_path: Path) -> None:
    done = passes(environments, package, tmp_path / "a", FOLDS, "canonicalize,cse")
    assert done.ok, done.outcome
    assert done.text("ir").count("arith.addi") == 1
    assert "%c2_i32 = arith.constant 2 : i32" in done.text("ir")


def test_no_location_is_printed(environments: Any, package: tuple[str, str], tmp_path: Path) -> None:
    located = FOLDS.replace("%x, %two : i32", '%x, %two : i32 loc("somewhere.py":1:2)')
    done = passes(environments, package, tmp_path / "a", located, "canonicalize")
    assert "loc(" not in done.text("ir")
    assert "somewhere" not in done.text("ir")


def test_a_type_error_is_told_with_its_place(environments: Any, package: tuple[str, str], tmp_path: Path) -> None:
    done = passes(environments, package, tmp_path / "a", FOLDS.replace("-> i32", "-> i64"), "canonicalize")
    assert done.outcome["outcome"] == "lower-failed"
    assert "does not parse" in done.outcome["reason"]
    assert "doesn't match function result type" in done.outcome["diagnostics"]
    assert 'at loc("in/ir":6:3)' in done.outcome["diagnostics"]


def test_an_unknown_pass_is_told(environments: Any, package: tuple[str, str], tmp_path: Path) -> None:
    done = passes(environments, package, tmp_path / "a", FOLDS, "canonicalize,no-such-pass")
    assert done.outcome["reason"] == "the pass pipeline does not parse"
    assert "no-such-pass" in done.outcome["diagnostics"]


def test_unregistered_operators_are_refused(environments: Any, package: tuple[str, str], tmp_path: Path) -> None:
    source = 'func.func @main() { "nobody.knows"() : () -> () return }'
    done = passes(environments, package, tmp_path / "a", source, "canonicalize")
    assert done.outcome["outcome"] == "lower-failed"
    assert "unregistered dialect" in done.outcome["diagnostics"]


@pytest.mark.parametrize("source", ["", " \n\t"], ids=["nothing", "blanks"])
def test_no_ir_is_no_module(environments: Any, package: tuple[str, str], tmp_path: Path, source: str) -> None:
    done = passes(environments, package, tmp_path / "a", source, "canonicalize")
    assert done.outcome["reason"] == "the IR is empty"


def test_bytes_that_are_not_ir(environments: Any, package: tuple[str, str], tmp_path: Path) -> None:
    done = passes(environments, package, tmp_path / "a", b"\xff\xfe\x00", "canonicalize")
    assert done.outcome["reason"] == "the IR is neither MLIR text nor bytecode"


def test_a_package_without_code_generation_says_so(environments: Any, tmp_path: Path) -> None:
    kernel = "llvm.func @_mlir_ciface_main() { llvm.return }"
    done = environments.perform(
        "jax",
        "object",
        tmp_path / "a",
        params={"backend": "bindings", "bindings": "jaxlib.mlir"},
        inputs={"ir": kernel},
        outputs={"object": "k.o"},
        stage="codegen",
    )
    assert done.outcome["outcome"] == "codegen-failed"
    assert "jaxlib.mlir was built without jaxlib.mlir.execution_engine" in done.outcome["reason"]


def test_every_dialect_of_a_road_is_known(environments: Any, tmp_path: Path) -> None:
    source = """
func.func @main(%x: tensor<4xf32>, %t: !torch.vtensor<[4],f32>, %m: memref<4xf32>) -> tensor<4xf32> {
  %0 = chlo.erf %x : tensor<4xf32> -> tensor<4xf32>
  %1 = stablehlo.add %0, %x : tensor<4xf32>
  %2 = tosa.exp %1 : (tensor<4xf32>) -> tensor<4xf32>
  %3 = torch.aten.relu %t : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  tm_tensor.sort dimension(0) outs(%m : memref<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ogt, %a, %b : f32
    tm_tensor.yield %c : i1
  }
  return %2 : tensor<4xf32>
}
"""
    done = passes(environments, ("torch_mlir", "mlir"), tmp_path / "a", source, "cse")
    assert done.ok, done.outcome
    assert all(name in done.text("ir") for name in ("chlo.erf", "stablehlo.add", "tosa.exp", "tm_tensor.sort"))


def test_an_unknown_root_is_refused() -> None:
    with pytest.raises(ActionFailed, match="unknown bindings package 'os'"):
        bindings.load("os")


def test_a_root_that_is_not_here_is_named() -> None:
    absent = next(root for root in bindings.ROOTS if root not in bindings.installed())
    with pytest.raises(ActionFailed, match=f"no bindings package {absent}"):
        bindings.load(absent)


def test_two_packages_never_share_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jaxlib.mlir.ir", sys)
    with pytest.raises(RuntimeError, match=r"jaxlib\.mlir is loaded in this process; torch_mlir"):
        bindings.load("torch_mlir")


def test_importing_the_adapter_imports_no_package() -> None:
    code = (
        "import sys; from mlir_matrix.actions.mlir import bindings; bindings.installed();"
        "assert not {'numpy', 'torch_mlir.ir', 'mlir.ir'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_a_context_is_used_again_only_if_it_is_as_good_as_new(environments: Any, tmp_path: Path) -> None:
    """Workers fork after ``preload``: it must leave one thread."""
    environment = environments.require("mlir")
    script = (
        "import os\n"
        "from mlir_matrix.actions.mlir import bindings\n"
        "bindings.preload(); bindings.preload()\n"
        "assert len(os.listdir('/proc/self/task')) == 1\n"
        "package = bindings.load()\n"
        "def use(path):\n"
        "    with package.session() as session:\n"
        "        session.text(session.parse(path))\n"
        "        return session.context\n"
        "first = use('empty.mlir')\n"
        "assert use('empty.mlir') is first\n"
        "with package.session() as nested:\n"
        "    assert use('empty.mlir') is not nested.context\n"
        "try:\n"
        "    use('wrong.mlir')\n"
        "except Exception:\n"
        "    second = use('resource.mlir')\n"
        "assert second is not first\n"
        "third = use('resource.mlir')\n"
        "assert third is not second\n"
    )
    sites = [str(Path(bindings.__file__).parents[3]), *environment.sites(environments.packages)]
    (tmp_path / "empty.mlir").write_text("module {}")
    (tmp_path / "wrong.mlir").write_text("module {")
    (tmp_path / "resource.mlir").write_text(
        "func.func @f() -> tensor<1xi32> { %0 = arith.constant dense_resource<r> : tensor<1xi32> return %0 : tensor<1xi32> }"
        '{-# dialect_resources: { builtin: { r: "0x0400000001000000" } } #-}'
    )
    done = subprocess.run(
        [*environment.interpreter.command(environments.packages), "-P", "-s", "-S", "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": os.pathsep.join(sites)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
