"""Wheels made here, as wrong as is asked for, and a folder of them that is the only place where pip looks."""

from __future__ import annotations

import base64
import hashlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from mlir_matrix.environments.lockfiles.wheels import WheelPackage


def hashed(data: bytes) -> str:
    """As RECORD has it."""
    return f"sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()}"


def wheel(folder: Path, name: str, *, size: int = 10, more: Mapping[str, bytes] | None = None) -> WheelPackage:
    """A pure wheel of one module and perhaps more files, and its package."""
    files = {
        f"{name}.py": b"x" * size,
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{name}-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **(more or {}),
    }
    record = "".join(f"{path},{hashed(data)},{len(data)}\n" for path, data in files.items())
    files[f"{name}-1.0.dist-info/RECORD"] = f"{record}{name}-1.0.dist-info/RECORD,,\n".encode()
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, data in files.items():
            info = zipfile.ZipInfo(inner)
            info.external_attr = (0o100755 if data.startswith(b"#!") else 0o100644) << 16
            archive.writestr(info, data)
    return package(path)


def package(path: Path) -> WheelPackage:
    """What a lock has of a wheel."""
    name, version = path.name.split("-")[:2]
    return WheelPackage(name=name, version=version, hashes=(hashlib.sha256(path.read_bytes()).hexdigest(),))


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place that pip looks at."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder
