"""Compare an image of a daemon with its spec: by its description, or file by file."""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import IO, Any, cast

from mlir_matrix.base.digest import digest_pieces
from mlir_matrix.base.paths import Home
from mlir_matrix.containers.layers import FORMAT
from mlir_matrix.containers.spec import LABEL_DIGEST, LABEL_FORMAT, ImageSpec, layer_members
from mlir_matrix.containers.tar import pack
from mlir_matrix.environments.resolve import ResolvedEnvironment

#: Settings that no image may have: they would be run, or hide files of the image.
_NOTHING = ("Entrypoint", "Cmd", "Volumes", "OnBuild")
#: Content of a layer by path: mode, and hash or target.
Listing = dict[str, str]
_MOST = 5
_CHUNK = 1 << 20
#: Prefix of a file that a layer removes.
_WHITEOUT = ".wh."
_GZIP = b"\x1f\x8b"


def differences(spec: ImageSpec, described: Mapping[str, Any]) -> list[str]:
    """Return what differs, from the daemon's description of the image; empty if it is the same.

    Daemons identify an image by the digest of its configuration, which covers everything. Docker with containerd's store uses
    the digest of another manifest; then layers and configuration decide.
    """
    if described["Id"] == spec.id:
        return []
    found = [*_settings(spec, described.get("Config") or {}), *_layers(spec, described)]
    by_manifest = any(digest.endswith(f"@{described['Id']}") for digest in described.get("RepoDigests") or ())
    return found if found or by_manifest else [f"its ID is {described['Id']}, not {spec.id}; layers and user are right"]


def doubts(environment: ResolvedEnvironment, described: Mapping[str, Any]) -> list[str]:
    """Return wrong labels of an image, where its layers are unknown."""
    wanted = {LABEL_FORMAT: str(FORMAT), LABEL_DIGEST: environment.digest}
    labels = (described.get("Config") or {}).get("Labels") or {}
    return list(_labels(wanted, {key: labels[key] for key in wanted if key in labels}))


def _settings(spec: ImageSpec, found: Mapping[str, Any]) -> Iterator[str]:
    for key, value in spec.settings.items():
        if key == "Labels":
            yield from _labels(value, found.get(key) or {})
        elif found.get(key) != value:
            yield f"its {key} is {_shown(found.get(key))}, not {_shown(value)}"
    for key in _NOTHING:
        if found.get(key):
            yield f"it has {key} {_shown(found[key])}, and should have none"


def _labels(wanted: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(wanted.keys() | found.keys()):
        if found.get(key) != wanted.get(key):
            yield f"its label {key} is {_shown(found.get(key))}, not {_shown(wanted.get(key))}"


def _layers(spec: ImageSpec, described: Mapping[str, Any]) -> Iterator[str]:
    found = (described.get("RootFS") or {}).get("Layers") or []
    for layer, digest in zip_longest(spec.layers, found):
        if layer is None:
            yield f"it has an extra layer, {digest}"
        elif digest is None:
            yield f"it has no layer for {layer.label}"
        elif digest != f"sha256:{layer.digest}":
            yield f"its layer {digest} is not that of {layer.label}, sha256:{layer.digest}"


def _shown(value: object, most: int = 120) -> str:
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}…"


def changed_files(spec: ImageSpec, found: Sequence[str], saved: Iterable[bytes], home: Home) -> list[str]:
    """Return the first few files that were changed, added or lost.

    ``found``: the digests of the image's layers; ``saved``: the image as the daemon exports it.
    """
    wanted: Listing = {}
    for layer, digest in zip(spec.layers, spec.diff_ids, strict=True):
        if digest not in found:
            wanted |= _listed(_Stream(pack(layer_members(layer, spec, home))))[0]
    strange: Listing = {}
    for digest, listing in _saved_layers(_Stream(iter(saved))):
        if digest not in spec.diff_ids:
            strange |= listing
    changes = list(_compared(wanted, strange))
    return changes[:_MOST] + ([f"and {len(changes) - _MOST} more"] if len(changes) > _MOST else [])


def _compared(wanted: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    for path in sorted(wanted.keys() | found.keys()):
        folder, _, name = path.rpartition("/")
        if path not in found:
            yield f"{path} is missing"
        elif name.startswith(_WHITEOUT):
            yield f"{folder}/{name.removeprefix(_WHITEOUT)} was removed"
        elif path not in wanted:
            yield f"{path} was added or changed"
        elif found[path] != wanted[path]:
            yield f"{path} differs"


def _saved_layers(archive: _Stream) -> Iterator[tuple[str, Listing]]:
    """Yield digest and content of each layer of a saved image."""
    with tarfile.open(fileobj=cast(IO[bytes], archive), mode="r|") as outer:
        for member in outer:
            file = outer.extractfile(member) if member.isfile() else None
            if file is not None:
                stream = _Stream(_uncompressed(_pieces(file)))
                listing, digest = _listed(stream)
                if listing:
                    yield digest, listing


def _listed(stream: _Stream) -> tuple[Listing, str]:
    """Return the content of an archive and its digest; empty if it is no archive."""
    found: Listing = {}
    try:
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|") as layer:
            for member in layer:
                if member.isdir():
                    continue
                file = layer.extractfile(member) if member.isreg() else None
                content = digest_pieces(_pieces(file)) if file else f"to {member.linkname}"
                found[member.name] = f"{member.mode:o} {content}"
    except tarfile.ReadError:
        found.clear()
    # Bytes after the archive's end belong to its digest.
    while stream.read(_CHUNK):
        pass
    return found, f"sha256:{stream.state.hexdigest()}"


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.read(_CHUNK), b"")


def _uncompressed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress a layer: its digest is that of its archive."""
    first = next(pieces, b"")
    if not first.startswith(_GZIP):
        yield from chain([first], pieces)
        return
    gzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    for piece in chain([first], pieces):
        yield gzip.decompress(piece)


class _Stream:
    """Pieces of bytes, read like a file, and their hash."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""
        self.state = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes; fewer only at the end."""
        parts = [self._rest]
        length = len(self._rest)
        while length < size and (piece := next(self._pieces, None)) is not None:
            parts.append(piece)
            length += len(piece)
        data = b"".join(parts)
        data, self._rest = data[:size], data[size:]
        self.state.update(data)
        return data
