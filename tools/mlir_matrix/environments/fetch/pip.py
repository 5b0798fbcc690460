"""Resolve the distributions of an environment by pip, with hashes and sizes, without downloading them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from typing import Any

from mlir_matrix.environments.fetch.http import HttpStatusError, Transport
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.errors import InfrastructureError

_BUFFER = 1 << 16


def solve(pins: Mapping[str, str], *, tag: str) -> tuple[WheelPackage, ...]:
    """Every distribution that ``pins`` (distribution → version) need on CPython ``tag``, Linux x86-64, with its hash.

    Nothing is installed. Raises InfrastructureError with pip's words where there is no solution.
    """
    version = f"{tag[2]}.{tag[3:]}"
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(17, 40)] + ["manylinux2014_x86_64", "linux_x86_64"]
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"),
        *("--only-binary=:all:", "--disable-pip-version-check", "--target", "unused"),
        *("--python-version", version, "--implementation", "cp", "--abi", tag, "--abi", "abi3", "--abi", "none"),
        *(word for platform in platforms for word in ("--platform", platform)),
        *(f"{name}=={pinned}" for name, pinned in pins.items()),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        words = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise InfrastructureError(f"no solution for CPython {version}; pip says: {' '.join(words) or 'nothing'}")
    report: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    transport = Transport()
    try:
        return tuple(_package(item, transport) for item in report["install"])
    finally:
        transport.close()


def _package(item: Mapping[str, Any], transport: Transport) -> WheelPackage:
    archive = item["download_info"]["archive_info"]
    value = archive.get("hashes", {}).get("sha256") or archive["hash"].removeprefix("sha256=")
    metadata = item["metadata"]
    size, installed = _sizes(item["download_info"]["url"], transport)
    return WheelPackage(
        name=metadata["name"], version=metadata["version"], hashes=(value,), size=size, installed=installed
    )


def _sizes(address: str, transport: Transport) -> tuple[int, int] | tuple[None, None]:
    """What a lock says of sizes is for people: where it cannot be found out it is left out."""
    try:
        return wheel_sizes(address, transport)
    except InfrastructureError:
        return None, None


class _RemoteFile(io.RawIOBase):
    """A file at an address, read in parts."""

    def __init__(self, address: str, transport: Transport) -> None:
        self._address = address
        self._transport = transport
        self._at = 0
        first = transport.open(address, 0)
        first.close()
        if first.size is None:
            raise InfrastructureError("the index does not say how large its files are")
        self.size = first.size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self.size)[whence]
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._at >= self.size:
            return 0
        stream = self._transport.open(self._address, self._at)
        try:
            if stream.start != self._at:
                raise InfrastructureError("the index does not give parts of files")
            data = stream.read(len(buffer))
        finally:
            stream.close()
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def wheel_sizes(address: str, transport: Transport) -> tuple[int, int]:
    """Bytes of the wheel at an address, and of what is in it. Raises InfrastructureError."""
    try:
        raw = _RemoteFile(address, transport)
        with zipfile.ZipFile(io.BufferedReader(raw, _BUFFER)) as archive:
            return raw.size, sum(member.file_size for member in archive.infolist())
    except (HttpStatusError, zipfile.BadZipFile, OSError) as error:
        raise InfrastructureError(f"the size of a wheel cannot be found out: {error}") from None
