"""From an environment's name to what it is here: which lock counts, what its digest covers, what is said where it cannot be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.environments import interpreter as interpreters
from mlir_matrix.environments.interpreter import Interpreter, own
from mlir_matrix.environments.lock import Package, lock_file, write_lock
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment, resolve

ONE = Package(name="one", version="1", hashes=("1" * 64,))
TWO = Package(name="two", version="2", hashes=("2" * 64,))
CP311 = Interpreter(path="/usr/bin/python3.11", version="3.11.7", libc="glibc 2.36")


def environment(*packages: Package, interpreter: Interpreter = CP311, name: str = "x") -> ResolvedEnvironment:
    return ResolvedEnvironment(name=name, interpreter=interpreter, packages=packages)


def locked(folder: Path, tag: str, *packages: Package, name: str = "x") -> Path:
    locks = folder / "toolchains" / "locks"
    write_lock(lock_file(locks, name, tag), packages, environment=name)
    return locks


def test_the_digest_is_that_of_the_content() -> None:
    """Not of the name, the order, or the place of the interpreter."""
    base = environment(ONE, TWO).digest
    assert environment(TWO, ONE, name="y", interpreter=replace(CP311, path="/opt/python")).digest == base
    others = [
        environment(ONE), environment(ONE, replace(TWO, version="3")), environment(ONE, replace(TWO, hashes=("3" * 64,))),
        environment(ONE, TWO, interpreter=replace(CP311, version="3.11.8")),
        environment(ONE, TWO, interpreter=replace(CP311, libc="glibc 2.37")),
    ]  # fmt: skip
    assert len({base, *(other.digest for other in others)}) == 6


def test_what_is_missing(tmp_path: Path) -> None:
    found = environment(ONE, TWO)
    assert found.missing(tmp_path) == (ONE, TWO)
    (tmp_path / ONE.folder("cp311")).mkdir()
    (tmp_path / TWO.folder("cp311")).write_text("no folder")
    assert found.missing(tmp_path) == (TWO,)
    assert found.sites(tmp_path) == [f"{tmp_path}/one-1-cp311-111111111111", f"{tmp_path}/two-2-cp311-222222222222"]


def test_without_components_it_is_the_interpreter() -> None:
    found = resolve("python", components=(), lock_folders=())
    assert found == ResolvedEnvironment(name="python", interpreter=own(), packages=())


def test_the_lock_for_this_interpreter(tmp_path: Path) -> None:
    locks = locked(tmp_path, own().tag, ONE, TWO)
    found = resolve("x", components=["two"], lock_folders=[locks])
    assert isinstance(found, ResolvedEnvironment)
    assert set(found.packages) == {ONE, TWO}
    assert found.packages[0] == TWO, "what it is named for is fetched first"


def test_the_first_catalogs_lock_counts(tmp_path: Path) -> None:
    """A catalog that joins adds environments; it does not change what others install."""
    first, second = locked(tmp_path / "a", own().tag, ONE), locked(tmp_path / "b", own().tag, TWO)
    found = resolve("x", components=["one"], lock_folders=[first, second])
    assert isinstance(found, ResolvedEnvironment)
    assert found.packages == (ONE,)
    found = resolve("x", components=["one"], lock_folders=[tmp_path / "nothing", second])
    assert isinstance(found, ResolvedEnvironment)
    assert found.packages == (TWO,)


def test_no_lock(tmp_path: Path) -> None:
    found = resolve("x", components=["one"], lock_folders=[tmp_path])
    assert found == UnavailableEnvironment(
        name="x", reason="environment x has no lock; make one with: matrix toolchain lock x"
    )


def test_no_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names what would serve."""
    other = next(tag for tag in interpreters.SUPPORTED if tag != own().tag)
    monkeypatch.setenv("PATH", str(tmp_path))
    interpreters._probe.cache_clear()
    try:
        found = resolve("x", components=["one", "two"], lock_folders=[locked(tmp_path, other, ONE)])
    finally:
        interpreters._probe.cache_clear()
    assert isinstance(found, UnavailableEnvironment)
    version = f"{other[2]}.{other[3:]}"
    assert found.reason == (
        f"environment x (one, two) is locked for CPython {version}; this is CPython {own().version}. "
        f"A python{version} on PATH would serve"
    )


@pytest.mark.parametrize("odd", ["folder", "pipe", "gone"])
def test_locks_that_are_no_files(tmp_path: Path, odd: str) -> None:
    """Are none; nothing waits for a pipe."""
    import os

    locks = tmp_path / "toolchains" / "locks"
    locks.mkdir(parents=True)
    path = lock_file(locks, "x", own().tag)
    if odd == "folder":
        path.mkdir()
    elif odd == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere")
    assert isinstance(resolve("x", components=["one"], lock_folders=[locks]), UnavailableEnvironment)
