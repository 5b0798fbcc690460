"""What is kept of toolchains: ``verify`` finds what is damaged, ``fetch`` mends it, ``gc`` removes what nobody needs."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.base.files import locked
from mlir_matrix.environments.c_library import CLibrary
from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.lockfiles.debian import debian_lock_file
from mlir_matrix.environments.lockfiles.wheels import lock_file, read_lock, write_lock
from support import wheelhouse
from support.downstream import tree
from support.house import REPOSITORY, House, wait_until
from support.shop import NOWHERE, Shop, flip, open_shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("unit", "name"), [("tool 2.0", "usr/lib/1.so"), ("tool 2.0", "opt/t/bin/say"), ("thing 1.0", "thing.py")]
)
def test_a_flipped_byte(shop: Shop, unit: str, name: str) -> None:
    """Is found by reading everything, and made good without asking anybody."""
    missing = shop("fetch", "both", "--dry-run", "--format", "json").document["summary"]
    assert missing == {"environments": 1, "incomplete": 1, "unavailable": 0}
    shop("fetch", "both")
    assert shop("verify", "both").stdout.endswith("; 0 damaged\n")
    folder = shop.prefix if unit.startswith("tool") else shop.site
    good = (folder / name).read_bytes()
    flip(folder / name)
    found = shop("verify", "both", "--format", "json", code=3).document
    assert found["damaged"] == [{"unit": unit, "folder": folder.name, "files": [name]}]
    assert not folder.exists()
    asked = len(shop.server.requests)
    shop("fetch", "both")
    assert (folder / name).read_bytes() == good
    assert len(shop.server.requests) == asked
    shop("verify")


def test_what_is_visibly_gone_is_made_again(shop: Shop) -> None:
    shop("fetch", "both")
    (shop.site / "thing.py").unlink()
    (shop.prefix / "usr/lib/2.so").write_bytes(b"short")
    done = shop("fetch", "both")
    assert "thing 1.0 is damaged (thing.py is missing" in done.stderr
    assert "tool 2.0 is damaged (usr/lib/2.so)" in done.stderr
    assert (shop.site / "thing.py").is_file()
    assert (shop.prefix / "usr/lib/2.so").stat().st_size == 5000


def test_verify_reads_wheels_of_any_lock(shop: Shop) -> None:
    """Also of releases that are no longer pinned, and says what it has read."""
    shop("fetch", "thing")
    component = shop.catalog / "toolchains" / "components" / "thing.yaml"
    component.write_text(component.read_text() + '  - {release: "2.0"}\n')
    flip(shop.site / "thing.py")
    found = shop("verify", "--format", "json", code=3).document
    assert found["damaged"] == [{"unit": "thing 1.0", "folder": shop.site.name, "files": ["thing.py"]}]
    assert (found["units"], found["bytes_of_artifacts"]) == (1, shop.artifact("thing").stat().st_size)


def test_verify_reads_what_it_says(shop: Shop) -> None:
    """The artifacts of what is named, and those alone."""
    shop("fetch", "both")
    flip(shop.artifact("tool"))
    size = shop.artifact("thing").stat().st_size
    assert shop("verify", "thing").stdout == f"1 package and {size / 1e6:.1f} MB of archives read; 0 damaged\n"
    assert shop.artifact("tool").exists()
    found = shop("verify", "tool", "--format", "json", code=3).document
    name = shop.artifact("tool").name
    assert found == {
        "schema": "mlir-matrix/verified-toolchain/v1", "summary": {"packages": 1, "damaged_packages": 0, "damaged_archives": 1},
        "units": 1, "bytes_of_artifacts": shop.lock.size, "damaged": [], "artifacts": [name],
        "names": {name: f"tool 2.0: {shop.lock.packages[-1].label}"}, "fetch": ["tool@2.0"],
    }  # fmt: skip
    # And without what was made of it.
    shutil.rmtree(shop.house.home / "packages")
    assert shop("verify", "thing", "--format", "json").document["bytes_of_artifacts"] == size
    assert "tool@1.0 has no lock" in shop("verify", "tool@1.0").stderr


def test_what_is_damaged_has_a_name(shop: Shop) -> None:
    """And the command that makes it again, which is not the same for each."""
    shop("fetch", "both")
    flip(shop.artifact("tool"))
    flip(shop.site / "thing.py")
    stray = shop.house.home / "artifacts" / ("0" * 64)
    stray.write_bytes(b"?")
    done = shop("verify", code=3)
    assert (
        f"the archive of tool 2.0: {shop.lock.packages[-1].label} is damaged: {shop.artifact('tool').name}\n"
        in done.stdout
    )
    assert f"an unused archive is damaged: {stray.name}\n" in done.stdout
    told = f"make them again with: matrix toolchain fetch thing tool@2.0 --catalog {shop.catalog}\n"
    assert done.stderr == f"matrix: damaged packages and archives were removed; {told}"
    shop("fetch", "thing", "tool@2.0")
    assert shop("verify").stdout.endswith("; 0 damaged\n")


@pytest.fixture
def other(shop: Shop, tmp_path: Path) -> Shop:
    """Another catalog in the same home: its lock file lists the honest hash first, then that of its own wheel."""
    (tmp_path / "wheels").mkdir()
    own_wheel = wheelhouse.wheel(tmp_path / "wheels", "thing", more={"bin/hello": b"#!/bin/sh\necho changed\n"})
    locked_wheel = replace(shop.wheel, hashes=(*shop.wheel.hashes, *own_wheel.hashes))
    shutil.copytree(shop.catalog, tmp_path / "other")
    path = lock_file(tmp_path / "other" / "toolchains" / "locks", "thing", own().tag)
    write_lock(path, [locked_wheel], made_by="them", pins={"thing": "1.0"})
    more = {**shop.house.more, "PIP_FIND_LINKS": str(tmp_path / "wheels")}
    return replace(shop, house=House(shop.house.home, more=more), catalog=tmp_path / "other", wheel=locked_wheel)


def test_another_catalog_does_not_replace_a_package(shop: Shop, other: Shop) -> None:
    """Its own wheel gets a folder of its own, although the first hash is the same."""
    other("fetch", "thing")
    assert (other.site / "bin/hello").read_text() == "#!/bin/sh\necho changed\n"
    other("verify", "thing")
    shop("fetch", "thing")
    assert (shop.site / "bin/hello").read_text() == "#!/bin/sh\necho hello, $1\n"
    assert shop.installed() == {shop.site.name, other.site.name}
    assert shop("verify", "thing").stdout.endswith("; 0 damaged\n")


def test_a_package_of_another_archive_is_damaged(shop: Shop, other: Shop) -> None:
    """Each file is as its own list says, but the archive is not the one that the lock file names."""
    other("fetch", "thing")
    os.rename(other.site, shop.site)
    found = shop("verify", "thing", "--format", "json", code=3).document
    assert found["damaged"] == [{"unit": "thing 1.0", "folder": shop.site.name, "files": [".matrix/archives.json"]}]
    assert not shop.site.exists()
    other("fetch", "thing")
    os.rename(other.site, shop.site)
    assert "thing 1.0 is damaged (.matrix/archives.json) and is installed again" in shop("fetch", "thing").stderr
    assert (shop.site / "bin/hello").read_text() == "#!/bin/sh\necho hello, $1\n"
    shop("verify", "thing")


def test_packages_under_former_names_are_removed(shop: Shop) -> None:
    """Their names had twelve digits. They are made again from the archives that are kept."""
    shop("fetch", "both")
    asked = len(shop.server.requests)
    former = [folder.with_name(folder.name[:-20]) for folder in (shop.site, shop.prefix)]
    for new, old in zip((shop.site, shop.prefix), former, strict=True):
        os.rename(new, old)
    left = former[0].with_name(f".new-{former[0].name}-abc")
    left.mkdir()
    assert shop("fetch", "both", "--dry-run").stdout.count("download and install it") == 2
    shop("fetch", "both")
    assert len(shop.server.requests) == asked
    said = shop("gc").stdout
    assert all(f"removed: {path.name}\n" in said for path in (*former, left))
    assert "3 folders and 0 artifacts removed" in said
    assert shop.installed() == {shop.site.name, shop.prefix.name}
    assert shop("verify").stdout.endswith("; 0 damaged\n")


@pytest.mark.parametrize("unit", ["thing", "tool"])
def test_a_flipped_byte_in_an_artifact(shop: Shop, unit: str) -> None:
    """Found by ``verify``, brought back by ``fetch``, although what is made of it is there and stays there all the time."""
    shop("fetch", "both")
    good, asked = shop.artifact(unit).read_bytes(), len(shop.server.requests)
    before = tree(shop.house.home / "packages")
    flip(shop.artifact(unit))
    assert shop("verify", "--format", "json", code=3).document["artifacts"] == [shop.artifact(unit).name]
    assert not shop.artifact(unit).exists()
    shop("verify")
    told = f"archives of {unit} {'1.0' if unit == 'thing' else '2.0'} are damaged and are downloaded again\n"
    assert "damaged archives would be downloaded again\n" in shop("fetch", "both", "--dry-run").stdout
    assert shop("fetch", "both", "--quiet").stderr == told
    assert shop.artifact(unit).read_bytes() == good
    assert len(shop.server.requests) == asked + (unit == "tool")
    assert shop("fetch", "both").stderr == ""
    shop("verify")
    assert shop("fetch", "both", "--dry-run").stdout == "# nothing is missing\n"
    assert {name: what for name, what in tree(shop.house.home / "packages").items() if ".locks" not in name} == {
        name: what for name, what in before.items() if ".locks" not in name
    }
    # What is damaged and not known to be is not used.
    flip(shop.artifact(unit))
    shutil.rmtree(shop.house.home / "packages")
    shop("fetch", "both")
    shop("verify")
    assert shop.artifact(unit).read_bytes() == good


def test_what_installed_units_were_made_of_is_not_wanted(shop: Shop) -> None:
    """Removed on purpose, it stays away; where it is wanted and cannot be had, what is installed stays."""
    shop("fetch", "both")
    flip(shop.artifact("tool"))
    shop("verify", code=3)
    offline = shop.elsewhere(shop.house.home, MATRIX_DEB_MIRROR=NOWHERE)
    assert "tool 2.0" in offline("fetch", "both", code=3).stderr
    assert shop.installed() == {shop.prefix.name, shop.site.name}
    # Its remains say that it is wanted.
    assert "0 folders and 0 artifacts removed" in shop("gc").stdout
    assert "damaged archives would be downloaded again" in shop("fetch", "both", "--dry-run").stdout
    shop("gc", "--artifacts")
    assert list((shop.house.home / "artifacts").iterdir()) == []
    assert "2 packages installed" in offline("fetch", "both").stdout
    assert list((shop.house.home / "artifacts").iterdir()) == []


def test_gc(shop: Shop) -> None:
    """What no lock names, after it was said; never what one names."""
    shop("fetch", "both")
    entries = len(shop.lock.packages) + 1
    assert "0 folders and 0 artifacts removed" in shop("gc").stdout
    assert f"0 folders and {entries} artifacts would be removed" in shop("gc", "--dry-run", "--artifacts").stdout
    debian_lock_file(shop.catalog / "toolchains" / "locks", "tool", "2.0").unlink()
    before = tree(shop.house.home)
    said = shop("gc", "--dry-run").stdout
    assert f"would be removed: {shop.prefix.name}\n1 folder and {entries - 1} artifacts would be removed" in said
    assert tree(shop.house.home) == before
    assert shop("gc").stdout == said.replace("would be removed", "removed")
    assert shop.installed() == {shop.site.name}
    assert [path.name for path in (shop.house.home / "artifacts").iterdir()] == [shop.wheel.hashes[0]]
    shop("gc", "--artifacts")
    assert list((shop.house.home / "artifacts").iterdir()) == []
    shop("verify")


def test_gc_removes_the_build_folders_of_bisections(shop: Shop) -> None:
    builds = shop.house.home / "builds" / "tool-0123456789ab"
    (builds / "0" / "source").mkdir(parents=True)
    with locked(builds / "0.lock"):
        assert shop("gc").stdout.startswith(f"in use: build folder {builds.name}\n0 folders and 0 artifacts removed")
    for options, word in ((["--dry-run"], "would be removed"), ([], "removed")):
        assert builds.exists()
        assert shop("gc", *options).stdout.startswith(f"{word}: build folder {builds.name}\n1 folder and 0 artifacts ")
    assert not builds.exists()


def test_gc_keeps_what_other_catalogs_need(shop: Shop, tmp_path: Path) -> None:
    """And says for which; what is no longer there needs nothing."""
    theirs = replace(shop, catalog=tmp_path / "theirs")
    shutil.copytree(shop.catalog, theirs.catalog)
    theirs("fetch", "both")
    debian_lock_file(shop.catalog / "toolchains" / "locks", "tool", "2.0").unlink()
    shop("fetch", "thing")
    said = shop("gc").stdout
    assert said.startswith(
        f"kept for {REPOSITORY} with {theirs.catalog}: {shop.prefix.name}\n0 folders and 0 artifacts"
    )
    assert f"would be removed: {shop.prefix.name}\n" in shop("gc", "--alone", "--dry-run").stdout
    # Who cannot be asked may need anything.
    component = theirs.catalog / "toolchains" / "components" / "tool.yaml"
    text = component.read_text()
    component.write_text("releases: 7")
    refused = shop("gc", code=2).stderr
    assert f"{theirs.catalog} uses the same cache folder and cannot be loaded" in refused
    assert "--alone" in refused
    component.write_text(text)
    shutil.rmtree(theirs.catalog)
    assert shop("gc").stdout.startswith(f"removed: {shop.prefix.name}\n")
    assert shop.installed() == {shop.site.name}


def test_c_libraries_are_verified_and_kept(shop: Shop, tmp_path: Path) -> None:
    """Those of the catalog's targets; a run builds them, so that no name fetches them."""
    (tmp_path / "built.o").write_bytes(b"object")
    packages = shop.house.home / "packages"
    zig = read_lock(next((REPOSITORY / "toolchains" / "locks").glob("zig-cp311-*.txt")))
    needed, stale = (CLibrary.of(triple, zig) for triple in ("x86_64-linux-musl", "x86_64-linux-musleabi"))
    for library in (needed, stale):
        library.install(packages, tmp_path / "built.o")
    assert f"removed: {stale.folder}\n1 folder and 0 artifacts removed" in shop("gc").stdout
    assert needed.find(packages)
    listed = shop("list", "ziglang", "--format", "json").document["c_libraries"]
    assert {"target": needed.triple, "folder": needed.folder, "state": "installed"} in listed
    assert {row["state"] for row in listed} == {"installed", "not built"}
    assert shop("list", "tool", "--format", "json").document["c_libraries"] == []
    assert f"{needed.triple}   installed" in shop("list", "ziglang").stdout
    flip(packages / needed.folder / "runtime.o")
    done = shop("verify", "zig", code=3)
    assert "C library x86_64-linux-musl is damaged: runtime.o\n" in done.stdout
    assert done.stderr == "matrix: damaged packages and archives were removed\n"
    assert not (packages / needed.folder).exists()


def test_gc_forgets_layers_of_what_is_gone(shop: Shop) -> None:
    shop("fetch", "both")
    layers = shop.house.home / "layers"
    layers.mkdir()
    for name in (shop.prefix.name, shop.site.name, "gone-1.0-0123456789ab"):
        (layers / f"{name}.json").write_text("{}")
    shutil.rmtree(shop.prefix)
    told = "metadata of the layer of gone-1.0-0123456789ab\n"
    assert f"would be removed: {told}" in shop("gc", "--dry-run").stdout
    assert f"removed: {told}" in shop("gc").stdout
    # What is not installed just now has a layer all the same.
    assert {path.stem for path in layers.iterdir()} == {shop.prefix.name, shop.site.name}


def test_gc_keeps_the_archives_of_what_is_not_installed(shop: Shop) -> None:
    shop("fetch", "both")
    shutil.rmtree(shop.prefix)
    assert "0 folders and 1 artifact removed" in shop("gc", "--artifacts").stdout
    kept = {package.sha256 for package in shop.lock.packages}
    assert {path.name for path in (shop.house.home / "artifacts").iterdir()} == kept


def test_gc_while_others_fetch(shop: Shop) -> None:
    """What is being made stays, although no lock names it; what a kill has left goes."""
    shop("fetch", "thing")
    path = debian_lock_file(shop.catalog / "toolchains" / "locks", "tool", "2.0")
    shop.server.hold = threading.Event()
    new, parts = (shop.house.home / "packages").glob, (shop.house.home / "artifacts").glob
    with shop.house.start("toolchain", "fetch", "tool", "--quiet", "--catalog", shop.catalog) as process:
        assert shop.server.reached.wait(120)
        assert wait_until(lambda: any(new(".new-tool-*")) and any(parts("*.part")))
        (scratch,) = new(".new-tool-*")
        text = path.read_text()
        path.unlink()
        for arguments in (("--dry-run",), ()):
            said = shop("gc", *arguments).stdout
            assert said.startswith(f"in use: {scratch.name}\n0 folders and 0 artifacts"), said
        path.write_text(text)
        os.killpg(process.pid, signal.SIGKILL)
    shop.server.hold.set()
    shop.server.hold = None
    left = [path.name for path in parts("*.part")]
    said = shop("gc").stdout
    assert f"removed: {scratch.name}\n" in said
    assert all(f"removed: {name}\n" in said for name in left), said
    assert shop.installed() == {shop.site.name}
    assert list(parts("*.part")) == []
