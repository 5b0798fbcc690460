"""The docker-archive with images, written while it is sent; each shared layer once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

from mlir_matrix.digest import canonical
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.images.layers import Layer, root_members, unit_members
from mlir_matrix.images.spec import ImageSpec
from mlir_matrix.images.tar import Member, in_pieces, pack, size_of, text
from mlir_matrix.paths import Home

#: Called after each layer with the number of written and of all layers.
Tell = Callable[[int, int], None]


def archive(specs: Sequence[ImageSpec], home: Home, tell: Tell = lambda _done, _of: None) -> Iterator[bytes]:
    """Yield the archive in pieces. Raise InfrastructureError if a package has changed since its layer was measured."""
    return in_pieces(_archive(specs, home, tell))


def _archive(specs: Sequence[ImageSpec], home: Home, tell: Tell) -> Iterator[bytes]:
    layers = {layer.digest: (layer, spec) for spec in specs for layer in spec.layers}
    for number, (layer, spec) in enumerate(layers.values()):
        tell(number, len(layers))
        yield from _layer(layer, layer_members(layer, spec, home))
    manifest = []
    for spec in specs:
        name = f"{spec.id.removeprefix('sha256:')}.json"
        yield from text(name, spec.config.decode()).pieces()
        places = [_place(layer) for layer in spec.layers]
        manifest.append({"Config": name, "RepoTags": [spec.tag], "Layers": places})
    yield from pack([text("manifest.json", canonical(manifest).decode())])
    tell(len(layers), len(layers))


def layer_members(layer: Layer, spec: ImageSpec, home: Home) -> list[Member]:
    """Return the members of a layer. Raise InfrastructureError for a file that no image can hold."""
    if layer.folder:
        return unit_members(home.packages / layer.folder)
    return root_members(spec.interpreter, spec.user)


def _layer(layer: Layer, listed: Sequence[Member]) -> Iterator[bytes]:
    """Yield a layer as a file of the archive."""
    changed = InfrastructureError(
        f"{layer.label} has changed since its layer was measured: matrix toolchain verify finds the damage"
    )
    if size_of(listed) != layer.size:
        raise changed
    yield Member(path=_place(layer), mode=0o644, size=layer.size).header
    state = hashlib.sha256()
    # A layer is whole blocks and needs no padding.
    for piece in in_pieces(pack(listed)):
        state.update(piece)
        yield piece
    if state.hexdigest() != layer.digest:
        raise changed


def _place(layer: Layer) -> str:
    return f"{layer.digest}.tar"
