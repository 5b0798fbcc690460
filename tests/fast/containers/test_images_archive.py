"""Write the archive for a daemon."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.models.toolchains import Containers
from mlir_matrix.containers.images import archive
from mlir_matrix.containers.spec import ImageSpec, draw
from support.artifact_store import fill, made_of


def drawn(home: Home, *names: str) -> list[ImageSpec]:
    """An image for each of these names, of numpy and a package of that name."""
    found = []
    for name in names:
        environment = made_of("numpy", name)
        fill(home, environment)
        found.append(draw(environment, Containers(first=("numpy",)), home))
    return found


def test_shared_layers_are_there_once(home: Home) -> None:
    specs = drawn(home, "a", "b")
    told: list[tuple[int, int]] = []
    data = b"".join(archive(specs, home, lambda done, of: told.append((done, of))))
    with tarfile.open(fileobj=io.BytesIO(data)) as found:
        content = {member.name: reader.read() for member in found if (reader := found.extractfile(member))}
    manifest = json.loads(content.pop("manifest.json"))
    assert [entry["RepoTags"] for entry in manifest] == [[spec.tag] for spec in specs]
    for entry, spec in zip(manifest, specs, strict=True):
        config = content[entry["Config"]]
        assert f"sha256:{hashlib.sha256(config).hexdigest()}" == spec.id
        hashes = [f"sha256:{hashlib.sha256(content[layer]).hexdigest()}" for layer in entry["Layers"]]
        assert hashes == json.loads(config)["rootfs"]["diff_ids"]
    # The root, the interpreter, numpy, a and b, and two configurations.
    assert len(content) == 5 + 2
    assert told == [(number, 5) for number in range(6)]


@pytest.mark.parametrize("content", [b"a" * 98 + b"b", b"another size"])
def test_a_package_that_has_changed_since(home: Home, content: bytes) -> None:
    (spec,) = drawn(home, "a")
    path = home.packages / spec.layers[-1].folder / "a/data.bin"
    path.write_bytes(content)
    with pytest.raises(InfrastructureError, match=r"a 1\.0 has changed since its layer was measured"):
        b"".join(archive([spec], home))
