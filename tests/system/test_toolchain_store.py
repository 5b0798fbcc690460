"""What is kept of toolchains: ``verify`` finds what is damaged, ``fetch`` mends it, ``gc`` removes what nobody needs."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.base.files import locked
from mlir_matrix.environments.c_library import CLibrary
from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.lockfiles.debian import debian_lock_file
from mlir_matrix.environments.lockfiles.wheels import lock_file, read_lock, write_lock
from mlir_matrix.execute.action_cache import ActionCache, Result
from support import wheelhouse
from support.downstream import tree
from support.fake_index import NOWHERE, FakeIndex, flip
from support.workspace import REPOSITORY, Workspace, wait_until


@pytest.mark.parametrize(
    ("unit", "names"), [("tool 2.0", ["opt/t/bin/say", "usr/lib/1.so"]), ("thing 1.0", ["thing.py"])]
)
def test_a_flipped_byte(index: FakeIndex, unit: str, names: list[str]) -> None:
    """Is found by reading everything, and made good without asking anybody."""
    missing = index("fetch", "both", "--dry-run", "--format", "json").document["summary"]
    assert missing == {"environments": 1, "incomplete": 1, "unavailable": 0}
    index("fetch", "both")
    assert index("verify", "both").stdout.endswith("; 0 damaged\n")
    folder = index.prefix if unit.startswith("tool") else index.site
    good = [(folder / name).read_bytes() for name in names]
    for name in names:
        flip(folder / name)
    store = ActionCache(index.workspace.actions)
    store.prepare()
    store.keep("ab" * 32, Result(outcome={"outcome": "ok"}))
    done = index("verify", "both", "--format", "json", code=3)
    assert done.document["damaged"] == [{"unit": unit, "folder": folder.name, "files": names}]
    assert "removed 1 cached result, because damaged packages may have made them; " in done.stderr
    assert store.find("ab" * 32) is None
    assert not folder.exists()
    asked = len(index.server.requests)
    index("fetch", "both")
    assert [(folder / name).read_bytes() for name in names] == good
    assert len(index.server.requests) == asked
    index("verify")


def test_what_is_visibly_gone_is_made_again(index: FakeIndex) -> None:
    index("fetch", "both")
    (index.site / "thing.py").unlink()
    (index.prefix / "usr/lib/2.so").write_bytes(b"short")
    done = index("fetch", "both")
    assert "thing 1.0 is damaged (thing.py is missing" in done.stderr
    assert "tool 2.0 is damaged (usr/lib/2.so)" in done.stderr
    assert (index.site / "thing.py").is_file()
    assert (index.prefix / "usr/lib/2.so").stat().st_size == 5000


def test_verify_reads_wheels_of_any_lock(index: FakeIndex) -> None:
    """Also of releases that are no longer pinned, and says what it has read."""
    index("fetch", "thing")
    component = index.catalog / "toolchains" / "components" / "thing.yaml"
    component.write_text(component.read_text() + '  - {release: "2.0"}\n')
    flip(index.site / "thing.py")
    found = index("verify", "--format", "json", code=3).document
    assert found["damaged"] == [{"unit": "thing 1.0", "folder": index.site.name, "files": ["thing.py"]}]
    assert (found["units"], found["bytes_of_artifacts"]) == (1, index.artifact("thing").stat().st_size)


def test_verify_reads_what_it_says(index: FakeIndex) -> None:
    """The artifacts of what is named, and those alone."""
    index("fetch", "both")
    flip(index.artifact("tool"))
    size = index.artifact("thing").stat().st_size
    assert index("verify", "thing").stdout == f"1 package and {size / 1e6:.1f} MB of archives read; 0 damaged\n"
    assert index.artifact("tool").exists()
    found = index("verify", "tool", "--format", "json", code=3).document
    name = index.artifact("tool").name
    assert found == {
        "schema": "mlir-matrix/verified-toolchain/v1", "summary": {"packages": 1, "damaged_packages": 0, "damaged_archives": 1},
        "units": 1, "bytes_of_artifacts": index.lock.size, "damaged": [], "artifacts": [name],
        "names": {name: f"tool 2.0: {index.lock.packages[-1].label}"}, "fetch": ["tool@2.0"],
    }  # fmt: skip
    # And without what was made of it.
    shutil.rmtree(index.workspace.home / "packages")
    assert index("verify", "thing", "--format", "json").document["bytes_of_artifacts"] == size
    assert "tool@1.0 has no lock" in index("verify", "tool@1.0").stderr


def test_what_is_damaged_has_a_name(index: FakeIndex) -> None:
    """And the command that makes it again, which is not the same for each."""
    index("fetch", "both")
    flip(index.artifact("tool"))
    flip(index.site / "thing.py")
    stray = index.workspace.home / "artifacts" / ("0" * 64)
    stray.write_bytes(b"?")
    done = index("verify", code=3)
    assert (
        f"the archive of tool 2.0: {index.lock.packages[-1].label} is damaged: {index.artifact('tool').name}\n"
        in done.stdout
    )
    assert f"an unused archive is damaged: {stray.name}\n" in done.stdout
    told = f"make them again with: matrix toolchain fetch thing tool@2.0 --catalog {index.catalog}\n"
    assert done.stderr.endswith(f"matrix: damaged packages and archives were removed; {told}")
    index("fetch", "thing", "tool@2.0")
    assert index("verify").stdout.endswith("; 0 damaged\n")


@pytest.fixture
def other(index: FakeIndex, tmp_path: Path) -> FakeIndex:
    """Another catalog in the same home: its lock file lists the honest hash first, then that of its own wheel."""
    (tmp_path / "wheels").mkdir()
    own_wheel = wheelhouse.wheel(tmp_path / "wheels", "thing", more={"bin/hello": b"#!/bin/sh\necho changed\n"})
    locked_wheel = replace(index.wheel, hashes=(*index.wheel.hashes, *own_wheel.hashes))
    shutil.copytree(index.catalog, tmp_path / "other")
    path = lock_file(tmp_path / "other" / "toolchains" / "locks", "thing", own().tag)
    write_lock(path, [locked_wheel], made_by="them", pins={"thing": "1.0"})
    more = {**index.workspace.more, "PIP_FIND_LINKS": str(tmp_path / "wheels")}
    return replace(
        index, workspace=Workspace(index.workspace.home, more=more), catalog=tmp_path / "other", wheel=locked_wheel
    )


def test_another_catalog_does_not_replace_a_package(index: FakeIndex, other: FakeIndex) -> None:
    """Its own wheel gets a folder of its own, although the first hash is the same."""
    other("fetch", "thing")
    assert (other.site / "bin/hello").read_text() == "#!/bin/sh\necho changed\n"
    other("verify", "thing")
    index("fetch", "thing")
    assert (index.site / "bin/hello").read_text() == "#!/bin/sh\necho hello, $1\n"
    assert index.installed() == {index.site.name, other.site.name}
    assert index("verify", "thing").stdout.endswith("; 0 damaged\n")


def test_a_package_of_another_archive_is_damaged(index: FakeIndex, other: FakeIndex) -> None:
    """Each file is as its own list says, but the archive is not the one that the lock file names."""
    other("fetch", "thing")
    os.rename(other.site, index.site)
    found = index("verify", "thing", "--format", "json", code=3).document
    assert found["damaged"] == [{"unit": "thing 1.0", "folder": index.site.name, "files": [".matrix/archives.json"]}]
    assert not index.site.exists()
    other("fetch", "thing")
    os.rename(other.site, index.site)
    assert "thing 1.0 is damaged (.matrix/archives.json) and is installed again" in index("fetch", "thing").stderr
    assert (index.site / "bin/hello").read_text() == "#!/bin/sh\necho hello, $1\n"
    index("verify", "thing")


def test_packages_under_former_names_are_removed(index: FakeIndex) -> None:
    """Their names had twelve digits. They are made again from the archives that are kept."""
    index("fetch", "both")
    asked = len(index.server.requests)
    former = [folder.with_name(folder.name[:-20]) for folder in (index.site, index.prefix)]
    for new, old in zip((index.site, index.prefix), former, strict=True):
        os.rename(new, old)
    left = former[0].with_name(f".new-{former[0].name}-abc")
    left.mkdir()
    assert index("fetch", "both", "--dry-run").stdout.count("download and install it") == 2
    index("fetch", "both")
    assert len(index.server.requests) == asked
    said = index("gc").stdout
    assert all(f"removed: {path.name}\n" in said for path in (*former, left))
    assert "3 folders and 0 artifacts removed" in said
    assert index.installed() == {index.site.name, index.prefix.name}
    assert index("verify").stdout.endswith("; 0 damaged\n")


@pytest.mark.parametrize("unit", ["thing", "tool"])
def test_a_flipped_byte_in_an_artifact(index: FakeIndex, unit: str) -> None:
    """Found by ``verify``, brought back by ``fetch``, although what is made of it is there and stays there all the time."""
    index("fetch", "both")
    good, asked = index.artifact(unit).read_bytes(), len(index.server.requests)
    before = tree(index.workspace.home / "packages")
    flip(index.artifact(unit))
    assert index("verify", "--format", "json", code=3).document["artifacts"] == [index.artifact(unit).name]
    assert not index.artifact(unit).exists()
    index("verify")
    told = f"archives of {unit} {'1.0' if unit == 'thing' else '2.0'} are damaged and are downloaded again\n"
    assert "damaged archives would be downloaded again\n" in index("fetch", "both", "--dry-run").stdout
    assert index("fetch", "both", "--quiet").stderr == told
    assert index.artifact(unit).read_bytes() == good
    assert len(index.server.requests) == asked + (unit == "tool")
    assert index("fetch", "both").stderr == ""
    index("verify")
    assert index("fetch", "both", "--dry-run").stdout == "# nothing is missing\n"
    assert {name: what for name, what in tree(index.workspace.home / "packages").items() if ".locks" not in name} == {
        name: what for name, what in before.items() if ".locks" not in name
    }
    # What is damaged and not known to be is not used.
    flip(index.artifact(unit))
    shutil.rmtree(index.workspace.home / "packages")
    index("fetch", "both")
    index("verify")
    assert index.artifact(unit).read_bytes() == good


def test_what_installed_units_were_made_of_is_not_wanted(index: FakeIndex) -> None:
    """Removed on purpose, it stays away; where it is wanted and cannot be had, what is installed stays."""
    index("fetch", "both")
    flip(index.artifact("tool"))
    index("verify", code=3)
    offline = index.elsewhere(index.workspace.home, MATRIX_DEB_MIRROR=NOWHERE)
    assert "tool 2.0" in offline("fetch", "both", code=3).stderr
    assert index.installed() == {index.prefix.name, index.site.name}
    # Its remains say that it is wanted.
    assert "0 folders and 0 artifacts removed" in index("gc").stdout
    assert "damaged archives would be downloaded again" in index("fetch", "both", "--dry-run").stdout
    index("gc", "--artifacts")
    assert list((index.workspace.home / "artifacts").iterdir()) == []
    assert "2 packages installed" in offline("fetch", "both").stdout
    assert list((index.workspace.home / "artifacts").iterdir()) == []


def test_gc(index: FakeIndex) -> None:
    """What no lock names, after it was said; never what one names."""
    index("fetch", "both")
    entries = len(index.lock.packages) + 1
    assert "0 folders and 0 artifacts removed" in index("gc").stdout
    assert f"0 folders and {entries} artifacts would be removed" in index("gc", "--dry-run", "--artifacts").stdout
    debian_lock_file(index.catalog / "toolchains" / "locks", "tool", "2.0").unlink()
    before = index.kept()
    said = index("gc", "--dry-run").stdout
    assert f"would be removed: {index.prefix.name}\n1 folder and {entries - 1} artifacts would be removed" in said
    assert index.kept() == before
    assert index("gc").stdout == said.replace("would be removed", "removed")
    assert index.installed() == {index.site.name}
    assert [path.name for path in (index.workspace.home / "artifacts").iterdir()] == [index.wheel.hashes[0]]
    index("gc", "--artifacts")
    assert list((index.workspace.home / "artifacts").iterdir()) == []
    index("verify")


def test_gc_removes_the_build_folders_of_bisections(index: FakeIndex) -> None:
    builds = index.workspace.home / "builds" / "tool-0123456789ab"
    (builds / "0" / "source").mkdir(parents=True)
    with locked(builds / "0.lock"):
        assert index("gc").stdout.startswith(f"in use: build folder {builds.name}\n0 folders and 0 artifacts removed")
    for options, word in ((["--dry-run"], "would be removed"), ([], "removed")):
        assert builds.exists()
        assert index("gc", *options).stdout.startswith(f"{word}: build folder {builds.name}\n1 folder and 0 artifacts ")
    assert not builds.exists()


def test_gc_keeps_what_other_catalogs_need(index: FakeIndex, tmp_path: Path) -> None:
    """And says for which; what is no longer there needs nothing."""
    theirs = replace(index, catalog=tmp_path / "theirs")
    shutil.copytree(index.catalog, theirs.catalog)
    theirs("fetch", "both")
    debian_lock_file(index.catalog / "toolchains" / "locks", "tool", "2.0").unlink()
    index("fetch", "thing")
    said = index("gc").stdout
    assert said.startswith(
        f"kept for {REPOSITORY} with {theirs.catalog}: {index.prefix.name}\n0 folders and 0 artifacts"
    )
    assert f"would be removed: {index.prefix.name}\n" in index("gc", "--alone", "--dry-run").stdout
    # Who cannot be asked may need anything.
    component = theirs.catalog / "toolchains" / "components" / "tool.yaml"
    text = component.read_text()
    component.write_text("releases: 7")
    refused = index("gc", code=2).stderr
    assert f"{theirs.catalog} uses the same cache folder and cannot be loaded" in refused
    assert "--alone" in refused
    component.write_text(text)
    shutil.rmtree(theirs.catalog)
    assert index("gc").stdout.startswith(f"removed: {index.prefix.name}\n")
    assert index.installed() == {index.site.name}


def test_c_libraries_are_verified_and_kept(index: FakeIndex, tmp_path: Path) -> None:
    """Those of the catalog's targets; a run builds them, so that no name fetches them."""
    (tmp_path / "built.o").write_bytes(b"object")
    packages = index.workspace.home / "packages"
    zig = read_lock(next((REPOSITORY / "toolchains" / "locks").glob("zig-cp311-*.txt")))
    needed, stale = (CLibrary.of(triple, zig) for triple in ("x86_64-linux-musl", "x86_64-linux-musleabi"))
    for library in (needed, stale):
        library.install(packages, tmp_path / "built.o")
    assert f"removed: {stale.folder}\n1 folder and 0 artifacts removed" in index("gc").stdout
    assert needed.find(packages)
    listed = index("list", "ziglang", "--format", "json").document["c_libraries"]
    assert {"target": needed.triple, "folder": needed.folder, "state": "installed"} in listed
    assert {row["state"] for row in listed} == {"installed", "not built"}
    assert index("list", "tool", "--format", "json").document["c_libraries"] == []
    assert f"{needed.triple}   installed" in index("list", "ziglang").stdout
    flip(packages / needed.folder / "runtime.o")
    done = index("verify", "zig", code=3)
    assert "C library x86_64-linux-musl is damaged: runtime.o\n" in done.stdout
    assert done.stderr.endswith("matrix: damaged packages and archives were removed\n")
    assert not (packages / needed.folder).exists()
    needed.install(packages, tmp_path / "built.o")
    (packages / zig[0].folder_for("cp311")).mkdir()
    done = index("verify", "zig", code=3)
    assert "C library x86_64-linux-musl is damaged: all files: a damaged package builds it\n" in done.stdout
    assert index.installed() == set()


def test_gc_forgets_layers_of_what_is_gone(index: FakeIndex) -> None:
    index("fetch", "both")
    layers = index.workspace.home / "layers"
    layers.mkdir()
    for name in (index.prefix.name, index.site.name, "gone-1.0-0123456789ab"):
        (layers / f"{name}.json").write_text("{}")
    shutil.rmtree(index.prefix)
    told = "metadata of the layer of gone-1.0-0123456789ab\n"
    assert f"would be removed: {told}" in index("gc", "--dry-run").stdout
    assert f"removed: {told}" in index("gc").stdout
    # What is not installed just now has a layer all the same.
    assert {path.stem for path in layers.iterdir()} == {index.prefix.name, index.site.name}


def test_gc_keeps_the_archives_of_what_is_not_installed(index: FakeIndex) -> None:
    index("fetch", "both")
    shutil.rmtree(index.prefix)
    assert "0 folders and 1 artifact removed" in index("gc", "--artifacts").stdout
    kept = {package.sha256 for package in index.lock.packages}
    assert {path.name for path in (index.workspace.home / "artifacts").iterdir()} == kept


def test_gc_while_others_fetch(index: FakeIndex) -> None:
    """What is being made stays, although no lock names it; what a kill has left goes."""
    index("fetch", "thing")
    path = debian_lock_file(index.catalog / "toolchains" / "locks", "tool", "2.0")
    index.server.hold = threading.Event()
    new, parts = (index.workspace.home / "packages").glob, (index.workspace.home / "artifacts").glob
    with index.workspace.start("toolchain", "fetch", "tool", "--quiet", "--catalog", index.catalog) as process:
        assert index.server.reached.wait(120)
        assert wait_until(lambda: any(new(".new-tool-*")) and any(parts("*.part")))
        (scratch,) = new(".new-tool-*")
        text = path.read_text()
        path.unlink()
        for arguments in (("--dry-run",), ()):
            said = index("gc", *arguments).stdout
            assert said.startswith(f"in use: {scratch.name}\n0 folders and 0 artifacts"), said
        path.write_text(text)
        os.killpg(process.pid, signal.SIGKILL)
    index.server.hold.set()
    index.server.hold = None
    left = [path.name for path in parts("*.part")]
    said = index("gc").stdout
    assert f"removed: {scratch.name}\n" in said
    assert all(f"removed: {name}\n" in said for name in left), said
    assert index.installed() == {index.site.name}
    assert list(parts("*.part")) == []
