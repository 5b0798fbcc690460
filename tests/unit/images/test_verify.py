"""How an image differs from what the locks give, by what a daemon says of it."""

from __future__ import annotations

from typing import Any

import pytest

from mlir_matrix.catalog.models.containers import Containers
from mlir_matrix.images.spec import Blueprint, draw
from mlir_matrix.images.verify import differences, doubts
from mlir_matrix.paths import Home
from support.shelf import fill, made_of


@pytest.fixture
def blueprint(home: Home) -> Blueprint:
    environment = made_of("numpy")
    fill(home, environment)
    return draw(environment, Containers(), home)


def said(blueprint: Blueprint, **other: Any) -> dict[str, Any]:
    """What a daemon says, otherwise here and there."""
    return {
        "Id": "sha256:1",
        "Config": {**blueprint.settings, "Cmd": None, **other.pop("config", {})},
        "RootFS": {"Layers": list(blueprint.diff_ids)},
        **other,
    }


def test_by_its_id(blueprint: Blueprint) -> None:
    assert differences(blueprint, {"Id": blueprint.id}) == []


def test_daemons_that_call_images_by_manifests_of_their_own(blueprint: Blueprint) -> None:
    assert differences(blueprint, said(blueprint, RepoDigests=["a@sha256:1"])) == []
    assert differences(blueprint, said(blueprint, RepoDigests=["a@sha256:1"], config={"User": "0"})) == [
        "its User is 0, not 10001:10001"
    ]


def test_what_cannot_be_seen(blueprint: Blueprint) -> None:
    (sentence,) = differences(blueprint, said(blueprint))
    assert sentence == f"its ID is sha256:1, not {blueprint.id}; layers and user are right"


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"config": {"User": ""}}, "its User is , not 10001:10001"),
        ({"config": {"Cmd": ["sh"]}}, "it has Cmd ['sh'], and should have none"),
        ({"config": {"Labels": {"mlir-matrix.format": "1"}}}, "its label mlir-matrix.environment is None, not numpy"),
        ({"config": {"Env": ["A=" + "b" * 200]}}, f"its Env is ['A={'b' * 116}…, not ["),
        ({"RootFS": {"Layers": []}}, "it has no layer for the root"),
        ({"RootFS": {"Layers": ["sha256:2"]}}, "its layer sha256:2 is not that of the root, sha256:"),
    ],
)
def test_what_differs(blueprint: Blueprint, other: dict[str, Any], sentence: str) -> None:
    assert any(found.startswith(sentence) for found in differences(blueprint, said(blueprint, **other)))


def test_one_more_layer(blueprint: Blueprint) -> None:
    layers = [*blueprint.diff_ids, "sha256:3"]
    assert differences(blueprint, said(blueprint, RootFS={"Layers": layers})) == ["it has one more layer, sha256:3"]


def test_what_an_image_says_of_itself(blueprint: Blueprint) -> None:
    environment = blueprint.environment
    assert doubts(environment, said(blueprint)) == []
    assert doubts(environment, {"Config": None}) == [
        f"its label mlir-matrix.digest is None, not {environment.digest}",
        "its label mlir-matrix.format is None, not 1",
    ]
