"""Keep built commits in a folder that others read, by HTTP or as a folder: each file once, by its SHA-256, compressed.

``builds/NAME.json`` lists the files and links of a build, and ``builds.txt`` the builds. ``files/`` has the files: whole, or as
what differs from a whole one. Who reads a store trusts it with programs that run here; what is read is checked against the list.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import locked, unwritable, write_file
from mlir_matrix.environments.fetch.http import HttpStatusError, ProxyError, Transport
from mlir_matrix.environments.installed.integrity import damaged_files
from mlir_matrix.environments.source.package import COMMIT_MARK

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 6
#: Logarithms of the bytes among which equal ones are searched.
_LEAST_WINDOW, _LARGEST_WINDOW = 10, 30
_READ = 1 << 20
_LIST = "builds.txt"
#: The name of a build, which is that of its folder.
_NAME = re.compile(r"\w[\w.+-]*", re.ASCII)


@dataclass(frozen=True)
class Sizes:
    """What a transfer took: bytes of all files, and of those that were transferred, compressed; none if nothing was."""

    files: int = 0
    transferred: int = 0


def push(prefix: Path, store: Path) -> Sizes:
    """Add a build to a store; files that it has already are not written. Raise InfrastructureError."""
    size = written = 0
    files: dict[str, dict[str, Any]] = {}
    links: dict[str, str] = {}
    try:
        bases = _bases(prefix.name, store)
        for path in _paths(prefix):
            name = path.relative_to(prefix).as_posix()
            if path.is_symlink():
                links[name] = os.readlink(path)
                continue
            data = path.read_bytes()
            digest, base, added = _keep(data, bases.get(name, ""), store / "files")
            files[name] = {"sha256": digest, "base": base, "runs": os.access(path, os.X_OK)}
            size += len(data)
            written += added
        write_file(store / "builds" / f"{prefix.name}.json", json.dumps({"files": files, "links": links}).encode())
        with locked(store / "lock"):
            write_file(store / _LIST, "".join(f"{name}\n" for name in sorted(_stems(store))).encode())
    except (OSError, ValueError, KeyError, zstd.ZstdError) as error:
        reason = error if isinstance(error, OSError) else OSError("a file in it is damaged")
        raise unwritable(f"{prefix.name} cannot be kept in {store}", reason) from None
    return Sizes(size, written)


def _bases(name: str, store: Path) -> dict[str, str]:
    """Return by path the files of the newest build of the same component that are kept whole, or their bases."""
    component = name.partition(COMMIT_MARK)[0].rpartition("-")[0]
    lists = [store / "builds" / f"{each}.json" for each in builds_of(_stems(store), component)]
    if not lists:
        return {}
    newest = max(lists, key=lambda path: path.stat().st_mtime_ns)
    files = json.loads(newest.read_bytes())["files"]
    return {path: file["base"] or file["sha256"] for path, file in files.items()}


def _is_inside(path: PurePosixPath) -> bool:
    """Return whether a path of a list is below the folder of the build."""
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in str(path)


def _stems(store: Path) -> list[str]:
    return [path.stem for path in (store / "builds").glob("*.json")]


def _keep(data: bytes, base: str, folder: Path) -> tuple[str, str, int]:
    """Keep a file; return its digest, the file that it is kept as a difference from (empty: it is whole), and the bytes written.

    Commits near each other differ by little: two builds of ``FileCheck`` take 1 KB as a difference, and 1.1 MB compressed. Blocks
    by content would save 44 %.
    """
    digest = digest_bytes(data)
    if (folder / f"{digest}.zst").is_file():
        return digest, "", 0
    for kept in folder.glob(f"{digest}-*.zst"):
        return digest, kept.stem.rpartition("-")[2], 0
    whole = zstd.compress(data, _LEVEL)
    if base:
        other = zstd.decompress((folder / f"{base}.zst").read_bytes())
        packed = _difference(data, other)
        if 2 * len(packed) < len(whole):
            write_file(folder / f"{digest}-{base}.zst", packed)
            return digest, base, len(packed)
    write_file(folder / f"{digest}.zst", whole)
    return digest, "", len(whole)


def _difference(data: bytes, other: bytes) -> bytes:
    """Return data compressed as what differs from other data."""
    window = min(max((len(data) + len(other)).bit_length(), _LEAST_WINDOW), _LARGEST_WINDOW)
    parameter = zstd.CompressionParameter
    options: dict[int, int] = {
        parameter.compression_level: _LEVEL,
        parameter.window_log: window,
        parameter.enable_long_distance_matching: 1,
    }
    packed: bytes = zstd.compress(data, options=options, zstd_dict=zstd.ZstdDict(other, is_raw=True).as_prefix)
    return packed


def _paths(prefix: Path) -> Iterator[Path]:
    """Yield files and links of a prefix."""
    for folder, folders, names in os.walk(prefix):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        yield from (Path(folder, name) for name in sorted([*names, *links]))


def builds_of(names: Iterable[str], component: str, digits: str = "") -> list[str]:
    """Return the names of builds that are commits of a component; ``digits``: of one commit."""
    wanted = re.compile(rf"{re.escape(component)}-\d[^+]*{re.escape(COMMIT_MARK + digits)}.*")
    return [name for name in names if wanted.fullmatch(name)]


class BuildStore:
    """A store that is read: a folder, or a folder of a web server."""

    def __init__(self, address: str) -> None:
        is_address = address.startswith(("http://", "https://"))
        #: The folder, to which builds can be added; None for an address.
        self.folder = None if is_address else Path(address).absolute()
        self.address = self.folder.as_uri() if self.folder else address.rstrip("/")
        self._transport = Transport()

    def builds(self) -> list[str]:
        """Return the names of all builds. Raise InfrastructureError."""
        if self.folder is not None and not (self.folder / _LIST).exists():
            # Nothing was added yet.
            return []
        names = self._read(_LIST).decode("utf-8", "replace").split()
        return [name for name in names if _NAME.fullmatch(name)]

    def pull(self, name: str, packages: Path) -> Sizes:
        """Write a build into the folder of packages, unless it is there. Raise InfrastructureError."""
        if not _NAME.fullmatch(name):
            raise InfrastructureError(f"'{name}' is no name of a build")
        place = packages / name
        made = packages / f".new-{name}-pulled"
        try:
            with locked(packages / ".locks" / name):
                if place.is_dir():
                    return Sizes()
                shutil.rmtree(made, ignore_errors=True)
                sizes = self._write(name, made)
                damaged = damaged_files(made, thorough=True)
                if damaged:
                    raise InfrastructureError(f"{name} of {self.address} is damaged: {damaged[0]}")
                os.rename(made, place)
                return sizes
        except OSError as error:
            raise unwritable(f"{name} cannot be written", error) from None
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def _write(self, name: str, folder: Path) -> Sizes:
        listed = self._manifest(name)
        size = received = 0
        for path, file in listed["files"].items():
            data, packed = self._file(file["sha256"], file["base"])
            write_file(folder / path, data)
            (folder / path).chmod(0o755 if file["runs"] else 0o644)
            size, received = size + len(data), received + packed
        # Last, so that no file is written through a link.
        for path, target in listed["links"].items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).symlink_to(target)
        return Sizes(size, received)

    def _manifest(self, name: str) -> Mapping[str, Mapping[str, Any]]:
        """Return the files and links of a build. Raise InfrastructureError unless all are inside of it."""
        try:
            found: Mapping[str, Mapping[str, Any]] = json.loads(self._read(f"builds/{name}.json"))
            paths = [PurePosixPath(path) for path in (*found["files"], *found["links"])]
            inside = all(_is_inside(path) for path in paths)
            # Nothing may be written through a link.
            links = {PurePosixPath(path) for path in found["links"]}
            inside &= links.isdisjoint(parent for path in paths for parent in path.parents)
            inside &= all({"sha256", "base", "runs"} <= file.keys() for file in found["files"].values())
            inside &= all(isinstance(target, str) for target in found["links"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            inside = False
        if not inside:
            raise InfrastructureError(f"{self.address}/builds/{name}.json is no list of files of a build")
        return found

    def _file(self, digest: str, base: str) -> tuple[bytes, int]:
        """Return a file, and how many bytes were read for it. Raise InfrastructureError."""
        other, read = self._file(base, "") if base else (b"", 0)
        name = f"files/{digest}-{base}.zst" if base else f"files/{digest}.zst"
        packed = self._read(name)
        prefix = zstd.ZstdDict(other, is_raw=True).as_prefix if base else None
        try:
            data: bytes = zstd.decompress(packed, prefix, {zstd.DecompressionParameter.window_log_max: _LARGEST_WINDOW})
        except zstd.ZstdError:
            data = b""
        if digest_bytes(data) != digest:
            raise InfrastructureError(f"{self.address}/{name} is damaged")
        return data, len(packed) + read

    def _read(self, path: str) -> bytes:
        address = f"{self.address}/{path}"
        try:
            with closing(self._transport.open(address)) as stream:
                return b"".join(iter(lambda: stream.read(_READ), b""))
        except (HttpStatusError, ProxyError, OSError) as error:
            raise InfrastructureError(f"{address} cannot be read: {error}") from None
