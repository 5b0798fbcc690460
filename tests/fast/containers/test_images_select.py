"""Select environments for images by their names."""

from __future__ import annotations

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.containers.images import chosen, reference_of
from mlir_matrix.environments.session import Session


def names(current: Session, *words: str) -> list[str]:
    found, reasons = chosen(current, words)
    assert reasons == []
    assert all(environment.interpreter.prefix for environment in found)
    return [environment.name for environment in found]


def test_environments_suites_and_tests(current: Session) -> None:
    assert names(current, "numpy", "mlir@llvm=19", "numpy") == ["numpy", "mlir@llvm=19.1.7"]
    assert "torch" in names(current, "smoke")
    assert set(names(current, "jax/linalg-loops/x86_64/mlp")) >= {"jax", "mlir"}
    assert "torch" not in names(current, "jax/linalg-loops/x86_64/mlp")


def test_the_known_good_pin_is_no_other(current: Session) -> None:
    assert reference_of(current, f"numpy@numpy={current.pins.release('numpy').release}") == "numpy"


def test_what_cannot_be_in_an_image(current: Session) -> None:
    """A program of this machine, an environment without a lock."""
    found, reasons = chosen(current, ["mlir-upstream", "numpy"])
    assert [environment.name for environment in found] == ["numpy"]
    assert len(reasons) == 1
    assert "has no lock" in reasons[0]


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("numpi", "there is no environment or suite 'numpi'; did you mean 'numpy'?"),
        ("smok", "there is no environment or suite 'smok'; did you mean 'smoke'?"),
        ("mlir@llvm=99", "llvm has no release '99'"),
        ("mlir@lvm=19", "mlir@lvm=19: there is no component 'lvm'; did you mean 'llvm'?"),
        ("mlir@19", "mlir@19 19: expected COMPONENT=RELEASE"),
        ("", "there is no environment or suite ''"),
    ],
)
def test_what_is_nothing(current: Session, word: str, sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        chosen(current, [word])
    assert str(error.value).startswith(sentence)
