"""What a command works with: the releases behind the environments that plans name, and what it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.plan.session import open_session


def test_a_reference_says_what_an_environment_consists_of(current: Session) -> None:
    plain = current.pins_of("mlir")
    assert list(plain) == list(current.catalog.environments["mlir"].document.components)
    assert plain == {name: current.catalog.default_pins("mlir")[name] for name in plain}
    assert current.pins_of("mlir@llvm=19.1.7") == plain | {"llvm": "19.1.7"}
    assert current.pins_of("python") == {}
    assert [entry.name for entry, _ in current.releases("mlir@llvm=19.1.7")] == list(plain)


def test_pins_that_are_asked_for_are_behind_the_names_that_plans_give(tmp_path: Path) -> None:
    session = open_session(cache_dir=tmp_path, pins=["llvm=19"], swaps={"jax": "mlir"})
    assert session.pins.overrides == {"llvm": "19.1.7"}
    reference = session.pins.reference("mlir")
    assert reference == "mlir@llvm=19.1.7"
    assert session.pins_of(reference)["llvm"] == "19.1.7"
    assert session.pins.reference("jax") == "jax@llvm=19.1.7"
    assert session.pins_of("jax@llvm=19.1.7") == session.pins_of(reference)
    assert session.pins_of("jax@llvm=18.1.8")["llvm"] == "18.1.8"


def test_environments_have_the_names_that_plans_give(current: Session) -> None:
    references = ["mlir@llvm=19.1.7", "python", "mlir", "python"]
    found = current.environments(references)
    assert list(found) == sorted(set(references))
    for reference, environment in found.items():
        assert isinstance(environment, ResolvedEnvironment | UnavailableEnvironment)
        assert environment.name == reference


@pytest.mark.parametrize(
    ("pins", "swaps", "message"),
    [
        (["lvm=19"], {}, "--pin: there is no component 'lvm'; did you mean 'llvm'?"),
        (["llvm=1"], {}, "llvm has no release '1'; it has "),
        (["llvm=18", "llvm=19"], {}, "--pin: llvm is pinned twice, to 18.1.8 and to 19.1.7"),
        (["llvm"], {}, "--pin llvm: expected COMPONENT=RELEASE, e.g. llvm=19"),
        ([], {"mlir": "mlri"}, "--environment: there is no environment 'mlri'; did you mean 'mlir'?"),
    ],
)
def test_what_cannot_be_asked_for(pins: list[str], swaps: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_session(pins=pins, swaps=swaps)
    assert str(caught.value).startswith(message)
