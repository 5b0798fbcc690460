"""Resolve the distributions of an environment by pip, with hashes and sizes, without downloading them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.paths import Home
from mlir_matrix.environments.fetch.http import HttpStatusError, Transport
from mlir_matrix.environments.interpreter import version_of
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.machine import HOST, Architecture
from mlir_matrix.environments.scratch import temporary_folder

_BUFFER = 1 << 16


def options_for(tag: str, architecture: Architecture = HOST) -> list[str]:
    """Return pip's options for CPython ``tag`` on an architecture, whichever interpreter runs pip."""
    return [
        *("--only-binary=:all:", "--python-version", version_of(tag), "--implementation", "cp"),
        *(word for abi in (tag, "abi3", "none") for word in ("--abi", abi)),
        *(word for platform in architecture.wheel_platforms for word in ("--platform", platform)),
    ]


def variables(folder: Path) -> dict[str, str]:
    """Return the environment variables for pip: all but those of Python; ``folder``: for its temporary files."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "TMPDIR": str(folder)}


def conflict_in(output: str) -> str:
    """Return the requirements that cannot be met together, as pip's output lists them; empty if it lists none."""
    listed = output.partition("The conflict is caused by:\n")[2].partition("\n\n")[0]
    return ", ".join(line.strip() for line in listed.splitlines())


def address_of(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return URL and SHA-256 of a distribution in pip's report."""
    archive = item["download_info"]["archive_info"]
    value = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").removeprefix("sha256=")
    return str(item["download_info"]["url"]), str(value)


def solve(
    pins: Mapping[str, str], home: Home, *, tag: str, architecture: Architecture = HOST
) -> tuple[WheelPackage, ...]:
    """Return all distributions that ``pins`` (distribution → version) need on CPython ``tag``, with hashes.

    Nothing is installed. Raise InfrastructureError with pip's reason if there is no solution.
    """
    report = _report([f"{name}=={pinned}" for name, pinned in pins.items()], home, tag, architecture)
    transport = Transport()
    try:
        return tuple(_package(item, transport) for item in report["install"])
    finally:
        transport.close()


def newest(distribution: str, home: Home, *, tag: str) -> str:
    """Return the newest version of a distribution that CPython ``tag`` can install. Raise InfrastructureError."""
    (item,) = _report(["--no-deps", distribution], home, tag)["install"]
    return str(item["metadata"]["version"])


def _report(words: Sequence[str], home: Home, tag: str, architecture: Architecture = HOST) -> dict[str, Any]:
    """Return pip's report on what it would install."""
    with temporary_folder(home) as folder:
        file = folder / "report.json"
        # Without --quiet, because pip then omits which requirements conflict.
        command = [
            *(sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--report", str(file)),
            *("--disable-pip-version-check", "--target", "unused", *options_for(tag, architecture)),
            *words,
        ]
        done = subprocess.run(command, capture_output=True, text=True, env=variables(folder), check=False)
        if done.returncode != 0:
            errors = " ".join(line for line in done.stderr.splitlines() if line.startswith("ERROR"))
            raise InfrastructureError(
                f"no solution for CPython {version_of(tag)}; pip reports: {conflict_in(done.stdout) or errors or 'nothing'}"
            )
        report: dict[str, Any] = json.loads(file.read_bytes())
    return report


def _package(item: Mapping[str, Any], transport: Transport) -> WheelPackage:
    address, value = address_of(item)
    name, version = item["metadata"]["name"], item["metadata"]["version"]
    try:
        size, installed = wheel_sizes(address, transport)
    except InfrastructureError:
        # A lock file may omit the sizes.
        return WheelPackage(name=name, version=version, hashes=(value,))
    return WheelPackage(name=name, version=version, hashes=(value,), size=size, installed=installed)


class _RemoteFile(io.RawIOBase):
    """A file at a URL, read in parts."""

    def __init__(self, address: str, transport: Transport) -> None:
        self._address = address
        self._transport = transport
        self._at = 0
        first = transport.open(address, 0)
        first.close()
        if first.size is None:
            raise InfrastructureError("the index does not state the sizes of files")
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
                raise InfrastructureError("the index does not support ranges")
            data = stream.read(len(buffer))
        finally:
            stream.close()
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def wheel_sizes(address: str, transport: Transport) -> tuple[int, int]:
    """Return the bytes of the wheel at a URL, and of its unpacked files. Raise InfrastructureError."""
    try:
        raw = _RemoteFile(address, transport)
        with zipfile.ZipFile(io.BufferedReader(raw, _BUFFER)) as archive:
            return raw.size, sum(member.file_size for member in archive.infolist())
    except (HttpStatusError, zipfile.BadZipFile, OSError) as error:
        raise InfrastructureError(f"the size of a wheel is unknown: {error}") from None
