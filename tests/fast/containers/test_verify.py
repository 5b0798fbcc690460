"""Compare the description of an image with its spec."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.models.toolchains import Containers
from mlir_matrix.containers.images import archive
from mlir_matrix.containers.spec import ImageSpec, draw
from mlir_matrix.containers.tar import digest_of, members, pack, text
from mlir_matrix.containers.verify import changed_files, differences, doubts
from support.artifact_store import fill, made_of


@pytest.fixture
def spec(home: Home) -> ImageSpec:
    environment = made_of("numpy")
    fill(home, environment)
    return draw(environment, Containers(), home)


def said(spec: ImageSpec, **other: Any) -> dict[str, Any]:
    """Return the description of an image, with changes."""
    return {
        "Id": "sha256:1",
        "Config": {**spec.settings, "Cmd": None, **other.pop("config", {})},
        "RootFS": {"Layers": list(spec.diff_ids)},
        **other,
    }


def test_by_its_id(spec: ImageSpec) -> None:
    assert differences(spec, {"Id": spec.id}) == []


def test_daemons_that_call_images_by_manifests_of_their_own(spec: ImageSpec) -> None:
    assert differences(spec, said(spec, RepoDigests=["a@sha256:1"])) == []
    assert differences(spec, said(spec, RepoDigests=["a@sha256:1"], config={"User": "0"})) == [
        "its User is 0, not 10001:10001"
    ]


def test_what_cannot_be_seen(spec: ImageSpec) -> None:
    (sentence,) = differences(spec, said(spec))
    assert sentence == f"its ID is sha256:1, not {spec.id}; layers and user are right"


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
def test_what_differs(spec: ImageSpec, other: dict[str, Any], sentence: str) -> None:
    assert any(found.startswith(sentence) for found in differences(spec, said(spec, **other)))


def test_one_more_layer(spec: ImageSpec) -> None:
    layers = [*spec.diff_ids, "sha256:3"]
    assert differences(spec, said(spec, RootFS={"Layers": layers})) == ["it has an extra layer, sha256:3"]


def test_what_an_image_says_of_itself(spec: ImageSpec) -> None:
    environment = spec.environment
    assert doubts(environment, said(spec)) == []
    assert doubts(environment, {"Config": None}) == [
        f"its label mlir-matrix.digest is None, not {environment.digest}",
        "its label mlir-matrix.format is None, not 1",
    ]


def saved(*layers: bytes) -> Iterator[bytes]:
    """An image as a daemon gives it out: layers and words about them, in any pieces."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as outer:
        for name, content in (
            ("repositories", b"{}"),
            *((f"{number}/layer.tar", each) for number, each in enumerate(layers)),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            outer.addfile(info, io.BytesIO(content))
    whole = data.getvalue()
    return (whole[at : at + 1000] for at in range(0, len(whole), 1000))


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_what_somebody_put_on_top(spec: ImageSpec, home: Home, compress: Callable[[bytes], bytes]) -> None:
    more = [text("etc/passwd", "root::0:0::/:/bin/sh\n"), text("matrix/packages/.wh.numpy", ""), text("new", "x")]
    content = b"".join(pack(more))
    found = [*spec.diff_ids, f"sha256:{digest_of(more)}"]
    assert changed_files(spec, found, saved(compress(content)), home) == [
        "etc/passwd was added or changed",
        "matrix/packages/numpy was removed",
        "new was added or changed",
    ]


def test_another_layer_in_place_of_one(spec: ImageSpec, home: Home) -> None:
    layer = spec.layers[-1]
    place = f"matrix/packages/{layer.folder}"
    (home.packages / layer.folder / "numpy/data.bin").chmod(0o755)
    (home.packages / layer.folder / "numpy/__init__.py").rename(home.packages / layer.folder / "numpy/init.py")
    other = members(home.packages / layer.folder, place)
    (home.packages / layer.folder / "numpy/init.py").rename(home.packages / layer.folder / "numpy/__init__.py")
    (home.packages / layer.folder / "numpy/data.bin").chmod(0o644)
    listed = [member for member in other if not member.path.endswith(("init.py", "RECORD"))]
    content = b"".join(pack(listed))
    found = [*spec.diff_ids[:-1], f"sha256:{digest_of(listed)}"]
    assert changed_files(spec, found, saved(content), home) == [
        f"{place}/numpy-1.0.dist-info/RECORD is missing",
        f"{place}/numpy/__init__.py is missing",
        f"{place}/numpy/data.bin differs",
    ]


def test_the_image_itself(spec: ImageSpec, home: Home) -> None:
    assert changed_files(spec, spec.diff_ids, archive([spec], home), home) == []


def test_not_all_of_many_are_named(spec: ImageSpec, home: Home) -> None:
    found = changed_files(spec, [], saved(), home)
    assert len(found) == 6
    assert found[-1] == "and 11 more"
