"""Find the closure of an environment's pins for an interpreter: pip resolves, we keep versions and hashes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from mlir_matrix.environments.fetch.http import Transport
from mlir_matrix.environments.fetch.remote import wheel_sizes
from mlir_matrix.environments.lockfiles.wheels import Package
from mlir_matrix.errors import InfrastructureError


def solve(pins: Mapping[str, str], *, tag: str) -> tuple[Package, ...]:
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


def _package(item: Mapping[str, Any], transport: Transport) -> Package:
    archive = item["download_info"]["archive_info"]
    value = archive.get("hashes", {}).get("sha256") or archive["hash"].removeprefix("sha256=")
    metadata = item["metadata"]
    size, installed = _sizes(item["download_info"]["url"], transport)
    return Package(name=metadata["name"], version=metadata["version"], hashes=(value,), size=size, installed=installed)


def _sizes(address: str, transport: Transport) -> tuple[int, int] | tuple[None, None]:
    """What a lock says of sizes is for people: where it cannot be found out it is left out."""
    try:
        return wheel_sizes(address, transport)
    except InfrastructureError:
        return None, None
