"""Tiny Debian packages, made here, and locks of them."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import struct
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mlir_matrix.environments.install.debian_archive import zstd
from mlir_matrix.environments.lockfiles.debian import DebianPackage, DebianRelease
from mlir_matrix.environments.machine import HOST


@contextmanager
def quickly() -> Iterator[None]:
    """Without waiting for the disk each time, where a thousand files are written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


def _zstd(data: bytes) -> bytes:
    """With a checksum, as dpkg and the program write it."""
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.compress, ".gz": gzip.compress, ".bz2": bz2.compress, ".zst": _zstd, "": bytes,
}  # fmt: skip


@dataclass(frozen=True)
class Member:
    """A member of the data archive, as wrong as is asked for."""

    name: str
    data: bytes = b""
    type: bytes = tarfile.REGTYPE
    target: str = ""
    mode: int = 0o644


def folder(name: str) -> Member:
    return Member(name, type=tarfile.DIRTYPE, mode=0o755)


def link(name: str, target: str) -> Member:
    return Member(name, type=tarfile.SYMTYPE, target=target)


def hard(name: str, target: str) -> Member:
    return Member(name, type=tarfile.LNKTYPE, target=target)


def tar(members: Iterable[Member]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for member in members:
            info = tarfile.TarInfo(member.name)
            info.size, info.type, info.linkname, info.mode = len(member.data), member.type, member.target, member.mode
            archive.addfile(info, io.BytesIO(member.data))
    return file.getvalue()


def ar(*members: tuple[str, bytes]) -> bytes:
    data = b"!<arch>\n"
    for name, content in members:
        data += f"{name:<16}{'0':<12}{'0':<6}{'0':<6}{'100644':<8}{len(content):<10}".encode() + b"`\n" + content
        data += b"\n" * (len(content) % 2)
    return data


def control_text(name: str, version: str, architecture: str = HOST.debian) -> str:
    return f"Package: {name}\nVersion: {version}\nArchitecture: {architecture}\nDescription: x\n Package: y\n"


def packed(data: bytes, suffix: str = ".xz", control: str = "Package: x\n") -> bytes:
    """A package around a data archive."""
    fields = gzip.compress(tar([folder("./"), Member("./md5sums", b"?"), Member("./control", control.encode())]))
    return ar(("debian-binary", b"2.0\n"), ("control.tar.gz", fields), (f"data.tar{suffix}", PACKERS[suffix](data)))


def deb(*members: Member, suffix: str = ".xz", control: str = "Package: x\n") -> bytes:
    return packed(tar(members), suffix, control)


def write(path: Path, *members: Member, suffix: str = ".xz") -> Path:
    path.write_bytes(deb(*members, suffix=suffix))
    return path


def elf(*, interpreted: bool = True, runpath: bool = False, machine: int = 62, dynamic: bool = True) -> bytes:
    """The beginning of a program or a library."""
    segments = [(3, 0, 0)] if interpreted else []
    tags = struct.pack("<qQqQ", 29 if runpath else 1, 0, 0, 0)
    if dynamic:
        segments.append((2, 64 + 56 * (len(segments) + 1), len(tags)))
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, machine, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0
    )
    table = b"".join(struct.pack("<IIQQQQQQ", kind, 0, at, 0, 0, size, size, 0) for kind, at, size in segments)
    return header + table + tags


class Mirror:
    """A folder like a mirror of Debian."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, name: str, *members: Member, version: str = "1:2.0+b1~x-3", control: str = "") -> DebianPackage:
        """Put a package there; ``control``: its fields, if they are not those of its name and version."""
        path = f"pool/main/{name[0]}/{name}/{name}_{version.partition(':')[2]}_amd64.deb"
        data = deb(*members, control=control or control_text(name, version))
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)
        installed = sum(len(member.data) for member in members)
        return DebianPackage(
            name=name, version=version, size=len(data), installed=installed, suite="sid", path=path,
            sha256=hashlib.sha256(data).hexdigest(),
        )  # fmt: skip

    @property
    def base(self) -> str:
        return self.root.as_uri()


SCRIPT = b'#!/bin/sh\necho "said $(basename -- "$0") $*"\n'


def release(mirror: Mirror, count: int = 3) -> DebianRelease:
    """A component with a program that is a script, so that it runs on any machine, and packages with files."""
    packages = [mirror.add("tool", folder("./opt/t/bin"), Member("./opt/t/bin/say", SCRIPT, mode=0o755))]
    for number in range(1, count):
        data = bytes([number]) * 5000
        packages.append(
            mirror.add(
                f"lib{number}",
                folder("./usr/lib"),
                Member(f"./usr/lib/{number}.so", data),
                link(f"./usr/lib/l{number}", f"{number}.so"),
            )
        )
    return DebianRelease(component="tool", release="2.0", packages=tuple(packages), programs=("opt/t/bin",))
