"""Resolve environments: which lock file counts, what the digest covers, and why one is unavailable."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.environments import interpreter as interpreters
from mlir_matrix.environments.interpreter import Interpreter, own
from mlir_matrix.environments.lockfiles.debian import DebianPackage, DebianRelease, debian_lock_file, write_debian_lock
from mlir_matrix.environments.lockfiles.wheels import WheelPackage, lock_file, write_lock
from mlir_matrix.environments.machine import HOST
from mlir_matrix.environments.package import Releases, distributions, provider_of
from mlir_matrix.environments.resolve import (
    ResolvedEnvironment,
    UnavailableEnvironment,
    resolve,
)

ONE = WheelPackage(name="one", version="1", hashes=("1" * 64,))
TWO = WheelPackage(name="two", version="2", hashes=("2" * 64,))
#: What a component of Debian packages says.
DEB: dict[str, Any] = {
    "provider": "deb", "packages": ["tool"], "programs": ["usr/bin"], "tools": ["tool"], "of_release": {"suites": ["sid"]},
}  # fmt: skip
CP311 = Interpreter(path="/usr/bin/python3.11", version="3.11.7", libc="glibc 2.36")


def environment(*packages: WheelPackage, interpreter: Interpreter = CP311, name: str = "x") -> ResolvedEnvironment:
    return ResolvedEnvironment(name=name, interpreter=interpreter, packages=packages)


def locked(
    folder: Path, tag: str, *packages: WheelPackage, name: str = "x", pins: dict[str, str] | None = None
) -> Path:
    """Write a lock file that pins some of its packages; all by default."""
    locks = folder / "toolchains" / "locks"
    pins = {each.name: each.version for each in packages} if pins is None else pins
    write_lock(lock_file(locks, name, tag), packages, made_by="x", pins=pins)
    return locks


def component(name: str, release: str, **given: Any) -> tuple[Entry[Component], Release]:
    """A release of a component; ``given`` is of the component's file, and ``of_release`` of the release."""
    mine = {"release": release, **given.pop("of_release", {})}
    value = {"description": "It.", "link": "https://host.invalid", "releases": [mine], **given}
    document = Component.model_validate(value)
    folder = Path("/toolchains/components")
    return Entry(
        name=name, document=document, source=cast(Any, None), root=Path("/"), folder=folder
    ), document.releases[0]


def pypi(*packages: WheelPackage) -> Releases:
    return [component(each.name, each.version) for each in packages]


def tool(release: str = "2.0") -> DebianRelease:
    package = DebianPackage(
        name="tool", version=release, size=5, installed=7, suite="sid", path="pool/t.deb", sha256="5" * 64
    )
    return DebianRelease(component="tool", release=release, packages=(package,), programs=("usr/bin",))


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
    (tmp_path / ONE.folder_for("cp311")).mkdir()
    (tmp_path / TWO.folder_for("cp311")).write_text("no folder")
    assert found.missing(tmp_path) == (TWO,)
    assert found.sites(tmp_path) == [f"{tmp_path}/{package.folder_for('cp311')}" for package in (ONE, TWO)]


def test_without_components_it_is_the_interpreter() -> None:
    found = resolve("python", releases=(), lock_folders=())
    assert found == ResolvedEnvironment(name="python", interpreter=own(), packages=())


def test_the_lock_for_this_interpreter(tmp_path: Path) -> None:
    locks = locked(tmp_path, own().tag, ONE, TWO, pins={"two": "2"})
    found = resolve("x", releases=pypi(TWO), lock_folders=[locks])
    assert isinstance(found, ResolvedEnvironment)
    assert set(found.packages) == {ONE, TWO}
    assert found.packages[0] == TWO, "what it is named for is fetched first"


def test_the_first_catalogs_lock_counts(tmp_path: Path) -> None:
    """A catalog that joins adds environments; it does not change what others install."""
    other = replace(ONE, hashes=("3" * 64,))
    first, second = locked(tmp_path / "a", own().tag, ONE), locked(tmp_path / "b", own().tag, other)
    found = resolve("x", releases=pypi(ONE), lock_folders=[first, second])
    assert isinstance(found, ResolvedEnvironment)
    assert found.packages == (ONE,)
    found = resolve("x", releases=pypi(ONE), lock_folders=[tmp_path / "nothing", second])
    assert isinstance(found, ResolvedEnvironment)
    assert found.packages == (other,)


MINE = replace(ONE, hashes=("3" * 64,))


@pytest.mark.parametrize(
    ("second", "foreign"),
    [
        ([ONE, TWO], False),
        ([TWO], False),
        ([MINE], True),
        ([MINE, TWO], True),
        ([ONE, replace(TWO, version="3")], True),
        # Any archive with a listed hash serves.
        ([replace(ONE, hashes=(*ONE.hashes, "3" * 64))], True),
        ([replace(ONE, hashes=("3" * 64, *ONE.hashes))], True),
        ([replace(ONE, name="three")], True),
    ],
)
def test_which_environment_has_packages_of_another_catalog(
    tmp_path: Path, second: list[WheelPackage], foreign: bool
) -> None:
    """What a lock file of the first catalog has, whichever it is, is not foreign. The digest does not depend on it."""
    first, tag = tmp_path / "a", own().tag
    folders = [
        locked(first, tag, replace(ONE, size=5), name="one"), locked(tmp_path / "b", tag, *second, name="theirs")
    ]  # fmt: skip
    locked(first, tag, TWO, name="two")
    for name, packages, expected in (("theirs", second, foreign), ("one", [ONE], False)):
        found = resolve(name, releases=pypi(*packages), lock_folders=folders)
        assert isinstance(found, ResolvedEnvironment)
        assert found.foreign is expected
        assert found.digest == replace(found, foreign=not expected).digest


def test_another_catalog_brings_no_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would start the worker, outside of any isolation."""
    monkeypatch.setattr(interpreters, "find", lambda _tags: None)
    second = locked(tmp_path / "b", "cp314", ONE)
    lock = DebianRelease(component="cpython", release="3.14.1", packages=tool().packages)
    write_debian_lock(debian_lock_file(second, "cpython", "3.14.1"), lock, made=datetime.date(2026, 1, 2))
    found = resolve("x", releases=pypi(ONE), lock_folders=[second])
    assert isinstance(found, ResolvedEnvironment)
    found = resolve("x", releases=pypi(ONE), lock_folders=[tmp_path / "a", second])
    assert isinstance(found, UnavailableEnvironment)
    assert "put a python3.14 on PATH" in found.reason


@pytest.mark.parametrize("says", [True, False])
def test_a_lock_of_something_else(tmp_path: Path, says: bool) -> None:
    """It is refused, with or without a line of pins."""
    path = lock_file(locked(tmp_path, own().tag, ONE, TWO, pins={"two": "2"}), "x", own().tag)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2] * says + [line for line in lines if line.startswith("one")]))
    with pytest.raises(CatalogError, match=rf"^{path}:{'2:9' if says else '1:1'}: two==2 is pinned, but .* have two$"):
        resolve("x", releases=pypi(TWO), lock_folders=[path.parent])


def test_environment_without_a_lock_file_is_unavailable(tmp_path: Path) -> None:
    locks = locked(tmp_path, own().tag, ONE)
    found = resolve("x", releases=pypi(ONE, TWO), lock_folders=[locks])
    assert found == UnavailableEnvironment(
        name="x", reason="environment x (one 1 two 2) has no lock file; make one with: matrix toolchain lock x"
    )
    found = resolve("x", releases=[component("tool", "2.0", **DEB)], lock_folders=[locks])
    assert found == UnavailableEnvironment(
        name="x", reason="tool@2.0 has no lock file; make one with: matrix toolchain lock tool@2.0"
    )


def test_locked_for_another_architecture(tmp_path: Path) -> None:
    """By whichever lock file has these pins; others have none of them."""
    locks = locked(tmp_path, own().tag, ONE, TWO)
    lock_file(locks, "x", own().tag).rename(locks / "x-cp311-linux-sun4u.txt")
    found = resolve("y", releases=pypi(ONE, TWO), lock_folders=[locks])
    assert found == UnavailableEnvironment(
        name="y",
        reason="environment y (one 1 two 2) is locked for another architecture (x-cp311-linux-sun4u.txt), "
        f"not for {HOST.name}; make one with: matrix toolchain lock y",
    )
    assert "has no lock file" in getattr(resolve("y", releases=pypi(ONE), lock_folders=[locks]), "reason", "")
    (locks / "tool-2.0-linux-sun4u.yaml").touch()
    found = resolve("x", releases=[component("tool", "2.0", **DEB)], lock_folders=[locks])
    assert found == UnavailableEnvironment(
        name="x",
        reason="tool@2.0 is locked for another architecture (tool-2.0-linux-sun4u.yaml), "
        f"not for {HOST.name}; make one with: matrix toolchain lock tool@2.0",
    )


def test_no_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names what would serve."""
    other = next(tag for tag in interpreters.SUPPORTED if tag != own().tag)
    monkeypatch.setenv("PATH", str(tmp_path))
    interpreters._probe.cache_clear()
    try:
        found = resolve("x", releases=pypi(ONE, TWO), lock_folders=[locked(tmp_path, other, ONE, TWO)])
    finally:
        interpreters._probe.cache_clear()
    assert isinstance(found, UnavailableEnvironment)
    version = f"{other[2]}.{other[3:]}"
    assert found.reason == (
        f"environment x (one, two) is for CPython {version}; this is CPython {own().version}; "
        f"put a python{version} on PATH"
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
    assert isinstance(resolve("x", releases=pypi(ONE), lock_folders=[locks]), UnavailableEnvironment)


def test_prefixes_are_part_of_it(tmp_path: Path) -> None:
    """Beside packages; they need no interpreter of their own, and their lock counts, not where they are."""
    locks = locked(tmp_path, own().tag, ONE)
    write_debian_lock(debian_lock_file(locks, "tool", "2.0"), tool(), made=datetime.date(2026, 1, 2))
    releases = [*pypi(ONE), component("tool", "2.0", **DEB)]
    found = resolve("x", releases=releases, lock_folders=[tmp_path / "nothing", locks])
    assert isinstance(found, ResolvedEnvironment)
    assert [unit.label for unit in found.units] == ["one 1", tool().label]
    assert found.roots(tmp_path) == [f"{tmp_path}/{tool().folder}"]
    assert found.missing(tmp_path) == found.units
    (tmp_path / tool().folder).mkdir()
    assert found.missing(tmp_path) == (ONE,)
    alone = resolve("x", releases=releases[1:], lock_folders=[locks])
    assert isinstance(alone, ResolvedEnvironment)
    assert (alone.interpreter, alone.packages) == (own(), ())
    digests = {environment(ONE, interpreter=own()).digest, found.digest, alone.digest}
    digests.add(replace(found, prefixes=(tool("2.1"),)).digest)
    assert len(digests) == 4


def test_environment_size_estimates_unknown_packages(tmp_path: Path) -> None:
    """Downloads are ordered by size; an unknown size is estimated."""
    big = replace(ONE, size=1000, installed=3000)
    assert replace(environment(big), prefixes=(tool(),)).size == 1005
    assert environment(big, TWO).size > 1000


def test_what_pip_is_asked_for() -> None:
    """The distribution that a component is called on the index, or those that a release names; nothing that pip has not."""
    releases = [
        component("one", "1"), component("two", "2", distribution="two-py"), component("tool", "2.0", **DEB),
        component("tool", "3.0", **{**DEB, "of_release": {"provider": "pypi", "distributions": {"three": "3", "four": "4"}}}),
    ]  # fmt: skip
    assert distributions(releases) == {"one": "1", "two-py": "2", "three": "3", "four": "4"}
    assert [provider_of(entry.document, release) for entry, release in releases] == ["pypi", "pypi", "deb", "pypi"]
