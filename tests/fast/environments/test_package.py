"""Handle all kinds of packages alike; keep digests stable."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.base.digest import digest_value
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.host import HostProgram, HostTool
from mlir_matrix.environments.installer import dry_run
from mlir_matrix.environments.interpreter import Interpreter
from mlir_matrix.environments.lockfiles.debian import DebianPackage, DebianRelease
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.package import Package, is_missing, with_needs
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.source.package import Compiler, SourceBuild
from support.debs import Mirror, release

CP311 = Interpreter(path="/usr/bin/python3.11", version="3.11.7", libc="glibc 2.36")
WHEEL = WheelPackage(name="one", version="1", hashes=("1" * 64,))
DEB = DebianRelease(
    component="tool",
    release="2.0",
    packages=(
        DebianPackage(name="a", version="1", size=10, installed=20, sha256="a" * 64, suite="sid", path="pool/a/a.deb"),
    ),
)
HOST = HostTool(
    component="host", release="3", programs=(HostProgram(name="h", path="/h", sha256="c" * 64, version="3"),)
)


def build(**changed: object) -> SourceBuild:
    values: dict[str, object] = {
        "component": "built", "release": "0.1", "repository": "/r", "commit": "d" * 40, "subfolder": ".", "options": (),
        "targets": (), "programs": (), "variables": (), "needs": (DEB,), "compiler": Compiler(c="cc", cxx="c++"),
    }  # fmt: skip
    return SourceBuild(**{**values, **changed})  # type: ignore[arg-type]


UNITS: list[Package] = [WHEEL, DEB, build(), HOST]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.label)
def test_package_protocol_of_every_provider(unit: Package, tmp_path: Path) -> None:
    """What is asked of all of them."""
    name = unit.folder_for("cp311")
    assert is_missing(unit, tmp_path, "cp311") == bool(name)
    if name:
        (tmp_path / name).mkdir()
    assert not is_missing(unit, tmp_path, "cp311")
    assert all(isinstance(word, str) for word in unit.identity)
    assert (unit.size or 0) >= 0
    assert all(
        line.startswith("#") or line.split()[0] in ("env", "mkdir", "cp", "find")
        for line in dry_run(unit, tmp_path, tmp_path)
    )


def test_environment_digest_has_identities_of_packages() -> None:
    """The digest of an environment is that of the identities of its packages."""
    environment = ResolvedEnvironment(name="x", interpreter=CP311, packages=(WHEEL,), prefixes=(DEB,))
    assert environment.digest == digest_value(
        {
            "interpreter": CP311.identity(),
            "packages": [["one", "1", "1" * 64]],
            "prefixes": [["tool", DEB.made]],
        }
    )


def test_the_interpreters_prefix_counts() -> None:
    other = Interpreter(path="", version="3.11.7", libc="glibc 2.36", prefix=DEB)
    one = ResolvedEnvironment(name="x", interpreter=CP311, packages=(WHEEL,))
    two = ResolvedEnvironment(name="x", interpreter=other, packages=(WHEEL,))
    assert one.digest != two.digest
    assert two.units == (DEB, WHEEL)


def test_needs_come_first_and_once(tmp_path: Path) -> None:
    one, two = build(), build(component="other")
    environment = ResolvedEnvironment(name="x", interpreter=CP311, packages=(), prefixes=(one, two, HOST))
    assert list(with_needs([one, two])) == [DEB, one, two]
    assert environment.units == (DEB, one, two, HOST)
    assert environment.missing(tmp_path) == (DEB, one, two)
    assert environment.roots(tmp_path) == [str(tmp_path / one.folder), str(tmp_path / two.folder)]


@pytest.mark.parametrize(
    "changed",
    [
        {"commit": "e" * 40}, {"subfolder": "llvm"}, {"options": (("A", "ON"),)}, {"targets": ("opt",)},
        {"variables": (("A", DEB.folder, "usr"),)}, {"needs": ()}, {"compiler": Compiler(c="cc", cxx="c++", identity=("x",))},
    ],
    ids=str,
)  # fmt: skip
def test_what_a_builds_digest_covers(changed: dict[str, object]) -> None:
    assert build(**changed).digest != build().digest
    assert build(**changed).folder != build().folder
    assert build(repository="https://elsewhere").digest == build().digest, "a commit is the same wherever it is"


def test_a_real_prefix_is_provided(tmp_path: Path) -> None:
    """By the same call as all others; see test_deb for the rest."""
    lock = release(Mirror(tmp_path))
    assert lock.folder_for("cp311") == lock.folder
    assert Artifacts(tmp_path).to_fetch(lock) == lock.size
