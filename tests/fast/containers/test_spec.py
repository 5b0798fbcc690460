"""Specify images, down to their IDs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.models.toolchains import Containers
from mlir_matrix.containers.spec import can_draw, draw, in_order, is_measured, tag_of
from mlir_matrix.environments.installed.integrity import remove
from support.artifact_store import fill, made_of

PLAIN = Containers()


def test_the_same_lock_gives_the_same_image(homes: Callable[[str], Home]) -> None:
    environment = made_of("numpy", "ml_dtypes")
    first, second = homes("first"), homes("second")
    fill(first, environment)
    fill(second, environment, by_pip=True)
    one = draw(environment, PLAIN, first)
    assert one.config == draw(environment, PLAIN, second).config
    assert one.id == draw(environment, PLAIN, first, anew=True).id
    assert one.id != draw(environment, Containers(user=5), first).id
    assert one.id != draw(replace(environment, name="other"), PLAIN, first).id


def test_the_configuration(home: Home) -> None:
    environment = made_of("numpy")
    fill(home, environment)
    drawn = draw(environment, PLAIN, home)
    said = json.loads(drawn.config)
    assert said["config"]["User"] == "10001:10001"
    assert "PATH=" in said["config"]["Env"]
    assert said["config"]["Labels"] == {
        "mlir-matrix.format": "1",
        "mlir-matrix.environment": "numpy",
        "mlir-matrix.digest": environment.digest,
        "mlir-matrix.units": "cpython 3.11.2, numpy 1.0",
    }
    assert "Entrypoint" not in said["config"]
    assert said["rootfs"]["diff_ids"] == drawn.diff_ids
    assert [line["created_by"] for line in said["history"]] == ["the root", "cpython 3.11.2", "numpy 1.0"]
    assert drawn.size == sum(layer.size for layer in drawn.layers)


def test_what_many_have_comes_first(home: Home) -> None:
    """So that images share it: by the names that pip and components know."""
    environment = made_of("zzz", "ml_dtypes", "aaa", "numpy")
    labels = [unit.label for unit in in_order(environment, ("numpy", "ml-dtypes"))]
    assert labels == ["cpython 3.11.2", "numpy 1.0", "ml_dtypes 1.0", "aaa 1.0", "zzz 1.0"]
    assert [unit.label for unit in in_order(environment, ())][:2] == ["cpython 3.11.2", "aaa 1.0"]


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("mlir", "mlir"),
        ("mlir@llvm=19.1.7", "mlir-llvm-19.1.7"),
        ("iree@iree=3.8.0,numpy=2", "iree-iree-3.8.0-numpy-2"),
        ("A_b", "a-b"),
        ("x@llvm=24.0.0+torch-mlir.20261001", "x-llvm-24.0.0-torch-mlir.20261001"),
        ("a..b", "a-b"),
        ("a.-b-", "a-b"),
    ],
)
def test_tags_are_legal(name: str, legal: str) -> None:
    environment = replace(made_of("numpy"), name=name)
    assert tag_of(environment) == f"mlir-matrix/{legal}:{environment.digest[:12]}"


def test_what_is_known_needs_no_packages(home: Home) -> None:
    environment = made_of("numpy")
    assert not can_draw(environment, home)
    with pytest.raises(InfrastructureError, match="its folder is missing"):
        draw(environment, PLAIN, home)
    fill(home, environment)
    assert can_draw(environment, home)
    assert not is_measured(environment, home)
    found = draw(environment, PLAIN, home)
    for unit in environment.units:
        remove(home.packages / unit.folder_for("cp311"))
    assert can_draw(environment, home)
    assert is_measured(environment, home)
    assert draw(environment, PLAIN, home).id == found.id


def test_an_environment_of_this_machine_is_none(home: Home) -> None:
    environment = made_of()
    with pytest.raises(ValueError, match="python is not sealed"):
        draw(replace(environment, interpreter=replace(environment.interpreter, prefix=None)), PLAIN, home)
