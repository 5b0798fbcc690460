"""Sum up the bytes of environments: each package once, without what is installed or downloaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.base.paths import Home
from mlir_matrix.environments.interpreter import Interpreter
from mlir_matrix.environments.lockfiles.debian import DebianPackage, DebianRelease
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.state import Cost, cost_of

ONE = WheelPackage(name="one", version="1", hashes=("1" * 64, "a" * 64), size=100, installed=1000)
TWO = WheelPackage(name="two", version="1", hashes=("2" * 64,), size=10, installed=30)
UNKNOWN = WheelPackage(name="three", version="1", hashes=("3" * 64,))
PACKAGES = tuple(
    DebianPackage(
        name=name, version="1", size=size, installed=size * 4, suite="sid", path=f"p/{name}", sha256=name * 64
    )
    for name, size in (("b", 5), ("c", 7))
)
TOOL = DebianRelease(component="tool", release="1", packages=PACKAGES, programs=())
ALL = 112 + 10


@pytest.fixture
def home(tmp_path: Path) -> Home:
    for name in ("packages", "artifacts"):
        (tmp_path / name).mkdir()
    return Home(cache=tmp_path, state=tmp_path, actions=tmp_path)


def environment(*packages: WheelPackage, prefixes: tuple[DebianRelease, ...] = ()) -> ResolvedEnvironment:
    interpreter = Interpreter(path="/python", version="3.11.1", libc="glibc 2.36")
    return ResolvedEnvironment(name="x", interpreter=interpreter, packages=packages, prefixes=prefixes)


def test_cost_of_nothing_is_zero(home: Home) -> None:
    assert cost_of([], home) == cost_of([environment()], home) == Cost()
    assert Cost().here


def test_what_is_shared_counts_once(home: Home) -> None:
    given = [environment(ONE, TWO), environment(TWO, prefixes=(TOOL,)), environment(prefixes=(TOOL,))]
    whole = Cost(fetch=ALL, to_fetch=ALL, disk=1078, to_install=1078)
    assert cost_of(given, home) == whole
    assert not cost_of(given, home).here


def test_what_is_installed(home: Home) -> None:
    """Needs no artifact any more; the same package for another interpreter is another."""
    (home.packages / ONE.folder_for("cp311")).mkdir()
    (home.packages / TWO.folder_for("cp312")).mkdir()
    (home.packages / TOOL.folder).mkdir()
    given = environment(ONE, TWO, prefixes=(TOOL,))
    assert cost_of([given], home) == Cost(fetch=ALL, to_fetch=10, disk=1078, to_install=30)
    (home.packages / TWO.folder_for("cp311")).mkdir()
    assert cost_of([given], home).here


def test_what_is_fetched_and_not_unpacked(home: Home) -> None:
    """Any of its hashes will do; a package of the wrong size is none."""
    (home.artifacts / ("a" * 64)).write_bytes(b"x")
    (home.artifacts / ("b" * 64)).write_bytes(b"x" * 5)
    (home.artifacts / ("c" * 64)).write_bytes(b"x" * 8)
    cost = cost_of([environment(ONE, prefixes=(TOOL,))], home)
    assert cost == Cost(fetch=112, to_fetch=7, disk=1048, to_install=1048)
    assert not cost.here


def test_what_a_lock_does_not_say(home: Home) -> None:
    for unknown in (UNKNOWN, replace(UNKNOWN, size=1), replace(UNKNOWN, installed=1)):
        assert cost_of([environment(unknown, TWO)], home).exact is False
    assert cost_of([environment(TWO)], home).exact is True
    assert cost_of([environment(UNKNOWN)], home) == Cost(exact=False)
    assert not cost_of([environment(UNKNOWN)], home).here, "what costs nothing that is known is not there for that"
