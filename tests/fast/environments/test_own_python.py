"""The user's own Python packages: what is found in folders and wheels, what identifies it, and what is locked beside it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component
from mlir_matrix.environments import interpreter as interpreters
from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.lockfiles.wheels import WheelPackage, lock_file, write_lock
from mlir_matrix.environments.own_build import find_build, release_of_build
from mlir_matrix.environments.own_packages import OwnPackages, OwnWheel
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment, resolve
from mlir_matrix.plan.session import open_session
from support.catalogs import entry

TORCH = "description: d\nmodules: [torch]\nreleases: [{release: '1.0', bindings: torch, carries: [x]}]\n"
NUMPY = "description: d\nreleases: [{release: '2.0'}]\n"
#: What a lock file has: two components, and what the first needs.
LOCKED = [("torch", "1.0"), ("numpy", "2.0"), ("sympy", "3.0"), ("jinja2", "4.0")]


@pytest.fixture
def torch() -> Entry[Component]:
    return entry("components", Component, "torch", TORCH)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(cache=tmp_path / "cache", state=tmp_path, actions=tmp_path)


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def venv(folder: Path, python: str = "3.11") -> Path:
    site = folder / f"lib/python{python}/site-packages"
    write(folder / "pyvenv.cfg")
    write(site / "torch/__init__.py")
    for name in ("torch-1.5.0a0+git1", "sympy-9.0", "numpy-9.0"):
        write(site / f"{name}.dist-info/METADATA")
    return folder


def wheel(path: Path, *requires: str) -> Path:
    lines = "".join(f"Requires-Dist: {each}\n" for each in requires)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torch/__init__.py", "")
        archive.writestr("torch-1.5.dist-info/METADATA", f"Name: torch\nVersion: 1.5\n{lines}")
    return path


def resolved(
    torch: Entry[Component], pinned: Path, home: Home, folder: Path
) -> ResolvedEnvironment | UnavailableEnvironment:
    packages = [WheelPackage(name=name, version=version, hashes=(version[0] * 64,)) for name, version in LOCKED]
    locks = folder / "toolchains/locks"
    write_lock(lock_file(locks, "x", own().tag), packages, made_by="x", pins={"torch": "1.0", "numpy": "2.0"})
    numpy = entry("components", Component, "numpy", NUMPY)
    build = find_build(torch, str(pinned), home)
    release = release_of_build(build, torch.document)
    releases = [(torch, release), (numpy, numpy.document.releases[0])]
    return resolve("x", releases=releases, lock_folders=[locks], builds={release.release: build})


def test_a_virtual_environment_beside_what_is_locked(torch: Entry[Component], tmp_path: Path, home: Home) -> None:
    """Of it are the component and what it needs; other components are as locked."""
    found = resolved(torch, venv(tmp_path / "venv", own().version.rpartition(".")[0]), home, tmp_path)
    assert isinstance(found, ResolvedEnvironment)
    assert sorted(package.name for package in found.packages) == ["jinja2", "numpy"]
    (build,) = found.prefixes
    assert isinstance(build, OwnPackages)
    assert (build.release.partition("+")[0], found.foreign, found.is_locked) == ("1.5.0", False, False)
    assert found.changed_build() == ""
    next((tmp_path / "venv").glob("lib/*/*/torch/__init__.py")).unlink()
    assert found.changed_build() == str(tmp_path / "venv")


def test_a_folder_is_known_by_its_bytes(torch: Entry[Component], tmp_path: Path, home: Home) -> None:
    digests = []
    for name, text in (
        ("one", "__version__ = '2.1'\n"),
        ("two", "__version__ = '2.1'\n"),
        ("three", "__version__ = '2.2'\n"),
    ):
        write(tmp_path / name / "torch/__init__.py", text)
        write(tmp_path / name / "torch/__pycache__/a.pyc", name)
        build = find_build(torch, str(tmp_path / name), home)
        digests.append(build.release)
    assert digests[0] == digests[1] != digests[2]
    assert release_of_build(build, torch.document).carries == ("x",)


def test_a_folder_whose_links_leave_it(torch: Entry[Component], tmp_path: Path, home: Home) -> None:
    """What they name is part of its identity, and actions see it, with the links on the way."""
    source = write(tmp_path / "source/__init__.py", "__version__ = '2.1'\n").parent
    (tmp_path / "way").symlink_to(source)
    (source / "circle").symlink_to(source)
    pinned = tmp_path / "pinned"
    pinned.mkdir()
    (pinned / "torch").symlink_to("../way")
    before = find_build(torch, str(pinned), home)
    assert isinstance(before, OwnPackages)
    assert {Path(path).resolve() for path in before.outside} == {source}
    assert any(Path(path).is_symlink() for path in before.outside)
    write(source / "deep/module.py", "x = 1\n")
    assert find_build(torch, str(pinned), home).release != before.release


def test_a_package_within_a_package(tmp_path: Path, home: Home) -> None:
    text = "description: d\nmodules: [iree.compiler]\nreleases: [{release: '1.0'}]\n"
    iree = entry("components", Component, "iree", text)
    write(tmp_path / "pinned/iree/compiler/__init__.py", "__version__ = '2.1'\n")
    assert find_build(iree, str(tmp_path / "pinned"), home).release.startswith("2.1+own.")
    file = tmp_path / "iree-1.5-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("iree/compiler/__init__.py", "")
        archive.writestr("iree-1.5.dist-info/METADATA", "Name: iree\nVersion: 1.5\n")
    assert find_build(iree, str(file), home).release.startswith("1.5+own.")


def test_a_wheel_is_a_package_like_others(torch: Entry[Component], tmp_path: Path, home: Home) -> None:
    file = wheel(tmp_path / "torch-1.5-py3-none-any.whl", "sympy>=2", "absent; extra == 'more'")
    found = resolved(torch, file, home, tmp_path)
    assert isinstance(found, ResolvedEnvironment)
    assert {package.label for package in found.packages} == {"torch 1.5", "numpy 2.0", "sympy 3.0", "jinja2 4.0"}
    (sha256,) = next(package for package in found.packages if package.name == "torch").hashes
    assert (home.artifacts / sha256).read_bytes() == file.read_bytes()
    lacking = resolved(torch, wheel(file, "absent"), home, tmp_path)
    assert isinstance(lacking, UnavailableEnvironment)
    reason = "requires absent, which environment x lacks: pin a virtual environment that has it"
    assert lacking.reason.endswith(f"-py3-none-any.whl {reason}")


def test_packages_for_another_python_than_what_is_locked(torch: Entry[Component], tmp_path: Path, home: Home) -> None:
    other = "3.14" if own().tag != "cp314" else "3.13"
    found = resolved(torch, venv(tmp_path / "venv", other), home, tmp_path)
    assert isinstance(found, UnavailableEnvironment)
    locked = own().version.rpartition(".")[0]
    assert found.reason.endswith(
        f"venv is for CPython {other}, but environment x is locked for {locked}: build it for one of these"
    )


def test_packages_for_a_python_that_is_not_here(
    torch: Entry[Component], tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreters, "find", lambda _tags: None)
    build = find_build(torch, str(venv(tmp_path / "venv", "3.14")), home)
    release = release_of_build(build, torch.document)
    found = resolve("x", releases=[(torch, release)], lock_folders=[], builds={release.release: build})
    assert isinstance(found, UnavailableEnvironment)
    assert found.reason.startswith("environment x (torch) is for CPython 3.14; this is CPython ")


def test_what_is_no_build(torch: Entry[Component], tmp_path: Path, home: Home) -> None:
    empty = tmp_path / "empty"
    write(empty / "pyvenv.cfg")
    write(tmp_path / "plain/torch/__init__.py")
    write(tmp_path / "plain/torch/_C.cpython-39-x86_64-linux-gnu.so")
    write(tmp_path / "unversioned/torch/__init__.py")
    windows = wheel(tmp_path / "torch-1.5-cp311-cp311-win_amd64.whl")
    damaged = wheel(tmp_path / "torch-1.6-py3-none-any.whl")
    damaged.write_bytes(damaged.read_bytes().replace(b"Version: 1.5", b"Version: 1.6"))
    for pinned, why in {
        empty: "this virtual environment has no package torch; install it there, or pin the folder that has torch/",
        venv(tmp_path / "old", "3.9"): "it is for CPython 3.9; environments run on CPython 3.11 to 3.14",
        tmp_path / "plain": "it is for CPython 3.9",
        tmp_path / "unversioned": "torch states no version",
        tmp_path / "cache": "there is no such folder; build it there again, or pin a release",
        tmp_path / "unversioned/torch": "no package torch is in this folder",
        windows: "it is a wheel for cp311-cp311-win_amd64; this machine takes CPython 3.11 to 3.14 on linux-",
        wheel(tmp_path / "torch-1.5-cp3x-abi3-any.whl"): "it is a wheel for cp3x-abi3-any",
        damaged: "it is no wheel: Bad CRC-32",
        write(tmp_path / "torch-1.5-py3-none-any.whl"): "it is no wheel: File is not a zip file",
        tmp_path / "gone.whl": "there is no such file",
    }.items():
        with pytest.raises(UsageError) as error:
            find_build(torch, str(pinned), home)
        assert f": {why}" in str(error.value)
    other = entry("components", Component, "numpy", "description: d\nmodules: [numpy]\nreleases: [{release: '2'}]\n")
    with pytest.raises(UsageError, match="this wheel of torch has no package numpy"):
        find_build(other, str(wheel(tmp_path / "torch-1.5-py3-none-any.whl")), home)


def test_a_wheel_for_several_pythons(torch: Entry[Component], tmp_path: Path, home: Home) -> None:
    build = find_build(torch, str(wheel(tmp_path / "torch-1.5-cp312-abi3-manylinux_2_28_x86_64.whl")), home)
    assert isinstance(build, OwnWheel)
    assert build.tags == ("cp312", "cp313", "cp314")


def test_only_actions_import_packages_that_a_project_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's pull request may bring them with the matrix.yaml that pins them."""
    monkeypatch.setenv("MATRIX_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MATRIX_PROJECT", raising=False)
    write(tmp_path / "project/matrix.yaml", "")
    monkeypatch.chdir(tmp_path / "project")
    python = own().version.rpartition(".")[0]
    found = {}
    for folder in ("project/venv", "elsewhere/venv"):
        session = open_session(pins=[f"torch={venv(tmp_path / folder, python)}"])
        (build,) = session.builds.values()
        assert isinstance(build, OwnPackages)
        found[folder] = build.foreign
    assert found == {"project/venv": True, "elsewhere/venv": False}
