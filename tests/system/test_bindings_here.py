"""The adapter against every package of MLIR's bindings that an environment of this repository has on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.mlir.bindings import ROOTS
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session

FOLDS = """
func.func @main(%x: i32) -> i32 {
  %one = arith.constant 20 : i32
  %two = arith.addi %one, %one : i32
  %unused = arith.muli %x, %x : i32
  %y = arith.addi %x, %two : i32
  return %y : i32
}
"""
LOWERED = """
llvm.func @sqrt(f64) -> f64
llvm.func @_mlir_ciface_main(%x: f64) -> f64 attributes {llvm.emit_c_interface} {
  %y = llvm.call @sqrt(%x) : (f64) -> f64
  llvm.return %y : f64
}
"""


def has(environment: ResolvedEnvironment, module: str, store: Path) -> bool:
    """Whether an environment has a module, by its file: the adapter is not asked, which it is about."""
    return any((Path(site) / (module.replace(".", "/") + ".py")).is_file() for site in environment.sites(store))


#: Distributions with bindings in them: an environment with none of these need not be fetched to know that it has none.
DISTRIBUTIONS = frozenset({"mlir-python-bindings", "torch-mlir", "iree-base-compiler", "jaxlib"})


def carriers(root: str, current: Session, environments: Any) -> list[ResolvedEnvironment]:
    """The environments of the catalog that carry a package here."""
    found = [current.environment(name) for name in sorted(current.catalog.environments)]
    usable = [
        environments.require(item.name)
        for item in found
        if isinstance(item, ResolvedEnvironment) and any(package.name in DISTRIBUTIONS for package in item.packages)
    ]
    return [environment for environment in usable if has(environment, f"{root}.ir", environments.packages)]


@pytest.fixture(params=ROOTS)
def root(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def found(root: str, current: Session, environments: Any) -> list[ResolvedEnvironment]:
    """The environments that carry the package."""
    carrying = carriers(root, current, environments)
    if not carrying:
        pytest.skip(f"no environment here carries {root}")
    return carrying


def perform(
    environments: Any, environment: ResolvedEnvironment, tool: str, folder: Path, ir: str, **params: Any
) -> Any:
    outputs = {"ir": "out.mlir"} if tool == "passes" else {"object": "k.o"}
    params = {"backend": "bindings", **params}
    return environments.perform(environment.name, tool, folder, params=params, inputs={"ir": ir}, outputs=outputs)


def test_parse_pass_and_print(environments: Any, root: str, found: list[ResolvedEnvironment], tmp_path: Path) -> None:
    for environment in found:
        folder = tmp_path / environment.name
        done = perform(
            environments, environment, "passes", folder / "1", FOLDS, bindings=root, passes="canonicalize,cse"
        )
        assert done.ok, done.outcome
        text = done.text("ir")
        assert "arith.constant 40 : i32" in text
        assert text.count("arith.addi") == 1
        assert "arith.muli" not in text
        again = perform(environments, environment, "passes", folder / "2", text, bindings=root, passes="cse")
        assert again.text("ir") == text, "what is printed is read back as it was"


def test_object_where_the_package_has_an_engine(
    environments: Any, root: str, found: list[ResolvedEnvironment], tmp_path: Path
) -> None:
    for environment in found:
        done = perform(environments, environment, "object", tmp_path / environment.name, LOWERED, bindings=root)
        if not has(environment, f"{root}.execution_engine", environments.packages):
            assert f"the bindings package {root} was built without {root}.execution_engine" in done.outcome["reason"]
            continue
        assert done.ok, done.outcome
        data = done.read("object")
        assert data[:4] == b"\x7fELF"
        assert b"_mlir_ciface_main\0" in data
        assert b"sqrt\0" in data


def test_the_packages_that_must_be_here_are(current: Session, environments: Any) -> None:
    """So that the tests above have something to run, and code generation in one of them."""
    assert {item.name for item in carriers("torch_mlir", current, environments)} == {
        "mlir",
        "onnx",
        "torch",
        "torch-mlir",
    }
    assert {item.name for item in carriers("jaxlib.mlir", current, environments)} == {"jax"}
    assert has(environments.require("mlir"), "torch_mlir.execution_engine", environments.packages)
