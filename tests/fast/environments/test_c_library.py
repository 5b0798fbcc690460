"""Install C libraries as packages; name their folders."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.actions.tools import link_kit
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import Cancelled, locked
from mlir_matrix.environments.c_library import CLibrary
from mlir_matrix.environments.installed.integrity import damaged_files
from mlir_matrix.environments.lockfiles.wheels import WheelPackage

ZIG = WheelPackage(name="ziglang", version="1.0", hashes=("a" * 64,))
LIBRARY = CLibrary.of("x86_64-linux-musl", [ZIG])


@pytest.fixture
def built(tmp_path: Path) -> Path:
    path = tmp_path / "built.o"
    path.write_bytes(b"object")
    return path


@contextmanager
def held_elsewhere(path: Path) -> Iterator[None]:
    """Hold a lock in another thread, as another process would."""
    ready, done = threading.Event(), threading.Event()

    def hold() -> None:
        with locked(path):
            ready.set()
            done.wait(120)

    thread = threading.Thread(target=hold)
    thread.start()
    assert ready.wait(120)
    try:
        yield
    finally:
        done.set()
        thread.join()


def flip(path: Path) -> None:
    """Change the bytes of a file, not its size and time."""
    status = path.stat()
    path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_the_folder_is_named_by_what_decides_the_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = WheelPackage(name="musl", version="1.0", hashes=("b" * 64,))
    assert CLibrary.of(LIBRARY.triple, [other, ZIG]).folder == CLibrary.of(LIBRARY.triple, [ZIG, other]).folder
    found = {
        LIBRARY.folder,
        CLibrary.of(LIBRARY.triple, [ZIG, other]).folder,
        CLibrary.of(LIBRARY.triple, [replace(ZIG, hashes=("c" * 64,))]).folder,
        CLibrary.of("aarch64-linux-musl", [ZIG]).folder,
    }
    edited = tmp_path / "link_kit.py"
    edited.write_text(Path(link_kit.__file__).read_text() + "\n")
    monkeypatch.setattr(link_kit, "__file__", str(edited))
    found.add(CLibrary.of(LIBRARY.triple, [ZIG]).folder)
    assert len(found) == 5
    assert all(name.startswith("c-library-") for name in found)


def test_it_is_found_once_it_is_installed(tmp_path: Path, built: Path) -> None:
    packages = tmp_path / "packages"
    assert LIBRARY.find(packages) is None
    LIBRARY.install(packages, built)
    path = LIBRARY.find(packages)
    assert path
    assert path.read_bytes() == b"object"
    assert built.exists()
    assert {each.name for each in packages.iterdir()} == {".locks", LIBRARY.folder}


def test_an_undamaged_one_is_not_replaced(tmp_path: Path, built: Path) -> None:
    LIBRARY.install(tmp_path, built)
    before = (tmp_path / LIBRARY.folder).stat().st_ino
    built.write_bytes(b"another")
    LIBRARY.install(tmp_path, built)
    assert (tmp_path / LIBRARY.folder).stat().st_ino == before


def test_a_damaged_one_is_not_found_and_is_replaced(tmp_path: Path, built: Path) -> None:
    LIBRARY.install(tmp_path, built)
    folder = tmp_path / LIBRARY.folder
    flip(folder / "runtime.o")
    assert damaged_files(folder, thorough=False) == []
    assert damaged_files(folder, thorough=True) == ["runtime.o"]
    assert LIBRARY.find(tmp_path) is None
    LIBRARY.install(tmp_path, built)
    assert LIBRARY.find(tmp_path)
    assert [each.name for each in tmp_path.glob(".new-*")] == []


def test_one_process_installs_at_a_time(tmp_path: Path, built: Path) -> None:
    with held_elsewhere(tmp_path / ".locks" / LIBRARY.folder), pytest.raises(Cancelled):
        LIBRARY.install(tmp_path, built)
    with LIBRARY.lock(tmp_path):
        LIBRARY.install(tmp_path, built)
    assert LIBRARY.find(tmp_path)


def test_packages_that_cannot_be_written(tmp_path: Path, built: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InfrastructureError, match="C library x86_64-linux-musl cannot be installed"):
        LIBRARY.install(tmp_path / "file", built)
