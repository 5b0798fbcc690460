"""What names on the command line select: environments, releases, patterns, and environments that stand in for others."""

from __future__ import annotations

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.catalog.models.toolchains import PATCHER
from mlir_matrix.environments.interpreter import SUPPORTED
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.selection import locked_units
from mlir_matrix.plan.session import open_session
from mlir_matrix.toolchain.names import selections


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("mlir", ["mlir"]),
        ("torch*", ["torch", "torch-inductor", "torch-mlir"]),
        ("ll{vm,x}@1[89]", ["llvm@18.1.8", "llvm@19.1.7"]),
        ("{mlir,codegen}@llvm=19", ["codegen@llvm=19", "mlir@llvm=19"]),
    ],
)
def test_names_and_patterns(name: str, found: list[str]) -> None:
    assert [selection.name for selection in selections(open_session(), [name])] == found


@pytest.mark.parametrize("name", ["q*x", "mli*@19", "{jax,torch}r@llvm=19"])
def test_patterns_without_a_match(name: str) -> None:
    with pytest.raises(UsageError, match="there is no environment or component"):
        list(selections(open_session(), [name]))


def test_packages_have_one_folder() -> None:
    """By lock files, as ``gc`` and ``verify`` list them, and in environments; one of them is patched."""
    session = open_session()
    listed = locked_units(session)
    for name in ("bazel", "mlir"):
        (selection,) = selections(session, [name])
        environment = selection.resolve(session)
        assert isinstance(environment, ResolvedEnvironment)
        assert environment.folders.keys() <= listed.keys()
        assert len(environment.folders) == len(environment.units)
        # The program that patches runs on interpreters that its lock files do not name.
        patchers = [unit for unit in environment.units if unit.label.startswith(f"{PATCHER} ")]
        assert {unit.folder_for(tag) for unit in patchers for tag in SUPPORTED} <= listed.keys()


def test_an_environment_that_stands_in_for_another() -> None:
    (selection,) = selections(open_session(swaps={"mlir": "mlir-upstream"}), ["mlir"])
    assert (selection.name, selection.environment) == ("mlir", "mlir-upstream")
