"""Find, make, pull and push images."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.events import PackageProgress
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.models.toolchains import Containers
from mlir_matrix.containers.images import ensure, find, pull, push
from mlir_matrix.containers.spec import ImageSpec, draw
from mlir_matrix.environments.resolve import ResolvedEnvironment
from support.artifact_store import fill, made_of


class ArtifactStore:
    """What a daemon does with images, without one."""

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, Any]] = {}
        self.registry: dict[str, dict[str, Any]] = {}
        self.loads = 0
        self.forgets = False

    def image(self, reference: str) -> dict[str, Any] | None:
        by_id = {said["Id"]: said for said in self.tags.values()}
        return self.tags.get(reference) or by_id.get(reference)

    def load(self, archive: Iterable[bytes]) -> None:
        self.loads += 1
        with tarfile.open(fileobj=io.BytesIO(b"".join(archive))) as found:
            files = {each.name: reader.read() for each in found if (reader := found.extractfile(each))}
        for entry in json.loads(files["manifest.json"]):
            config = json.loads(files[entry["Config"]])
            said = {"Id": f"sha256:{entry['Config'].removesuffix('.json')}", "Config": config["config"], "Size": 1}
            if not self.forgets:
                self.tags[entry["RepoTags"][0]] = said | {"RootFS": {"Layers": config["rootfs"]["diff_ids"]}}

    def tag(self, reference: str, tag: str) -> None:
        said = self.image(reference)
        assert said is not None
        self.tags[tag] = said

    def push(self, tag: str) -> None:
        self.registry[tag] = self.tags[tag]

    def pull(self, tag: str) -> None:
        if tag not in self.registry:
            raise InfrastructureError(f"{tag}: manifest unknown")
        self.tags[tag] = self.registry[tag]


@pytest.fixture
def daemon() -> Any:
    return ArtifactStore()


def installed(home: Home, *names: str) -> ResolvedEnvironment:
    environment = made_of(*names)
    fill(home, environment)
    return environment


def have(environments: Iterable[ResolvedEnvironment], home: Home, daemon: Any) -> tuple[dict[str, Any], list[str]]:
    """The images, and what was told."""
    told: list[PackageProgress] = []
    found = ensure(environments, home=home, daemon=daemon, listener=told.append)
    return found, list(dict.fromkeys(progress.package for progress in told))


def test_what_is_absent_is_made_in_one_go(home: Home, daemon: Any) -> None:
    numpy, both = installed(home, "numpy"), installed(home, "numpy", "jax")
    found, told = have([numpy, both], home, daemon)
    assert told == ["digests of 3 layers", "images of numpy, numpy-jax"]
    assert daemon.loads == 1
    assert found.keys() == {numpy.digest, both.digest}
    image = found[both.digest]
    assert image == draw(both, Containers(), home).id == daemon.tags[f"mlir-matrix/numpy-jax:{both.digest[:12]}"]["Id"]
    assert have([numpy, both], home, daemon) == (found, [])
    other = installed(home, "onnx")
    assert have([other, numpy], home, daemon)[1] == ["digests of 1 layer", "image of onnx"]
    assert daemon.loads == 2


def test_two_names_for_the_same(home: Home, daemon: Any) -> None:
    numpy = installed(home, "numpy")
    found, _ = have([numpy, replace(numpy, name="other")], home, daemon)
    assert found.keys() == {numpy.digest}
    assert len(daemon.tags) == 2


def test_another_image_of_that_name_is_replaced(home: Home, daemon: Any) -> None:
    numpy = installed(home, "numpy")
    (image,) = have([numpy], home, daemon)[0].values()
    drawn = draw(numpy, Containers(), home)
    daemon.tags[drawn.tag] = {**daemon.tags[drawn.tag], "Id": "sha256:1"}
    assert find(drawn, daemon) == ""
    assert have([numpy], home, daemon)[0] == {numpy.digest: image}
    assert daemon.loads == 2


def test_a_daemon_that_does_not_keep_it(home: Home, daemon: Any) -> None:
    daemon.forgets = True
    with pytest.raises(InfrastructureError, match=r"loaded mlir-matrix/numpy:.* but does not have this image"):
        have([installed(home, "numpy")], home, daemon)


def pushed(home: Home, daemon: Any) -> ImageSpec:
    """An image that is in the registry, and no longer here."""
    have([installed(home, "numpy")], home, daemon)
    drawn = draw(made_of("numpy"), Containers(), home)
    push(drawn.tag, "registry/ci", daemon)
    daemon.tags.clear()
    return drawn


@pytest.mark.parametrize("known", [True, False])
def test_an_image_from_the_registry(home: Home, daemon: Any, known: bool) -> None:
    drawn = pushed(home, daemon)
    assert pull(drawn.environment, drawn if known else None, "registry/ci", daemon) == ""
    assert daemon.image(drawn.tag)["Id"] == drawn.id


@pytest.mark.parametrize("known", [True, False])
def test_one_that_is_something_else(home: Home, daemon: Any, known: bool) -> None:
    drawn = pushed(home, daemon)
    said = daemon.registry[f"registry/ci/{drawn.tag}"]
    said |= {"Id": "sha256:1", "Config": {**said["Config"], "Labels": {}}}
    why = pull(drawn.environment, drawn if known else None, "registry/ci", daemon)
    assert why.startswith(
        f"registry/ci/{drawn.tag} does not match the lock files: its label mlir-matrix.digest is None, not"
    )
    assert daemon.image(drawn.tag) is None


def test_one_that_it_has_not(home: Home, daemon: Any) -> None:
    drawn = pushed(home, daemon)
    assert pull(drawn.environment, drawn, "other", daemon) == f"other/{drawn.tag}: manifest unknown"
