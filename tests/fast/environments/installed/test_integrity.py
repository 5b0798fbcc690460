"""Find damage in installed packages, quickly or by reading everything."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import locked
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.install.debian import provide
from mlir_matrix.environments.install.wheel_archive import unpack_wheel
from mlir_matrix.environments.installed.integrity import damaged_files, remove
from mlir_matrix.environments.lockfiles.debian import DebianRelease
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from support import debs, wheelhouse
from support.fake_index import flip

Unit = tuple[Path, WheelPackage | DebianRelease, str]


def a_wheel(tmp_path: Path) -> Unit:
    thing = wheelhouse.wheel(tmp_path, "w")
    folder = tmp_path / "packages" / "w"
    folder.mkdir(parents=True)
    unpack_wheel(tmp_path / "w-1.0-py3-none-any.whl", folder, thing, threading.Event())
    return folder, thing, "w.py"


def a_prefix(tmp_path: Path) -> Unit:
    mirror = debs.Mirror(tmp_path / "mirror")
    lock = debs.release(mirror)
    (tmp_path / "packages").mkdir()
    folder = provide(
        lock, artifacts=Artifacts(tmp_path / "artifacts"), packages=tmp_path / "packages",
        mirrors=lambda: (mirror.base,),
    )  # fmt: skip
    return folder, lock, "usr/lib/1.so"


@pytest.fixture(params=[a_wheel, a_prefix])
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Unit:
    made: Unit = request.param(tmp_path)
    return made


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("harm", "at_a_look"), [(flip, False), (shorten, True), (Path.unlink, True), (to_folder, True)]
)
def test_damaged_files_by_kind_of_damage(unit: Unit, harm: Callable[[Path], None], at_a_look: bool) -> None:
    """What a look misses is found by reading every byte."""
    folder, thing, name = unit
    assert damaged_files(folder, thorough=False) == damaged_files(folder, thorough=True) == []
    harm(folder / name)
    assert damaged_files(folder, thorough=True) == [name]
    if isinstance(thing, WheelPackage) and harm is to_folder:
        return  # A look at a wheel compares sizes alone, and a folder has some size.
    found = damaged_files(folder, thorough=False)
    assert bool(found) == at_a_look
    assert all(each.startswith(name) for each in found)


def test_damaged_files_without_a_list(unit: Unit) -> None:
    """An empty folder, or one without a list of files, is damaged."""
    folder, _thing, _ = unit
    for path in (*folder.glob("*.dist-info/RECORD"), *folder.glob(".matrix/files.json")):
        path.unlink()
    assert damaged_files(folder, thorough=True)
    assert damaged_files(folder, thorough=False)
    shutil.rmtree(folder)
    folder.mkdir()
    assert damaged_files(folder, thorough=True)
    assert damaged_files(folder, thorough=False)


def test_added_files_are_damage(unit: Unit) -> None:
    """Added files and links are damage, bytecode is not."""
    folder, _thing, _ = unit
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "w.cpython-311.pyc").write_bytes(b"x")
    assert damaged_files(folder, thorough=True) == []
    (folder / "more").mkdir()
    (folder / "more" / "odd, name.py").write_text("")
    (folder / "more" / "link").symlink_to("/")
    assert damaged_files(folder, thorough=True) == ["more/link", "more/odd, name.py"]
    assert damaged_files(folder, thorough=False) == []


RECORD = "w-1.0.dist-info/RECORD"


@pytest.mark.parametrize(
    "harm",
    [
        lambda text: text.replace(",sha256", "?sha256", 1),
        lambda text: text.replace("w.py,", "w.py,,", 1),
        lambda text: '"' + text,
        lambda text: text + '"' + "x" * 140_000,
        lambda text: text + "\n",
        lambda _text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "\udcff" + text,
    ],
)
def test_a_damaged_list(tmp_path: Path, harm: Callable[[str], str]) -> None:
    """A row that is none is no file less to look at: the list itself is damaged, and whatever is in it is made again."""
    folder, _thing, _ = a_wheel(tmp_path)
    text = harm((folder / RECORD).read_text())
    (folder / RECORD).write_text(text, errors="surrogateescape")
    assert damaged_files(folder, thorough=True)
    assert damaged_files(folder, thorough=False) or not text
    remove(folder)
    assert not folder.exists()


def test_rows_of_pips_own(tmp_path: Path) -> None:
    """RECORD lists programs in another folder. Unknown hashes are damage."""
    folder, _thing, _ = a_wheel(tmp_path)
    (folder / "bin").mkdir()
    (folder / "bin" / "w").write_text("#!")
    with open(folder / RECORD, "a") as file:
        file.write("../../bin/w,sha256=x,2\n")
    assert damaged_files(folder, thorough=True) == damaged_files(folder, thorough=False) == []
    with open(folder / RECORD, "a") as file:
        file.write("w-1.0.dist-info/WHEEL,shake_128=x,\nw-1.0.dist-info/METADATA,none=x,\nw.py,,11\n")
    bad = ["w-1.0.dist-info/METADATA", "w-1.0.dist-info/WHEEL"]
    assert damaged_files(folder, thorough=True) == bad


def test_remove_only_damaged_packages(unit: Unit) -> None:
    """Remove damaged packages atomically, unless another process was faster."""
    folder, _thing, name = unit
    remove(folder)
    assert damaged_files(folder, thorough=True) == [], "what is whole stays"
    flip(folder / name)
    remove(folder)
    assert not folder.exists()
    assert [path.name for path in folder.parent.iterdir() if path.name != ".locks"] == []
    remove(folder)


def test_made_again_while_it_was_to_be_removed(unit: Unit) -> None:
    """Two commands see the same damage: one removes it and makes it again, the other keeps what that made."""
    folder, _thing, name = unit
    whole = (folder / name).read_bytes()
    status = (folder / name).stat()
    shorten(folder / name)
    with locked(folder.parent / ".locks" / folder.name):
        other = threading.Thread(target=remove, args=(folder,))
        other.start()
        time.sleep(0.3)
        assert other.is_alive(), "whoever makes it holds its lock"
        (folder / name).write_bytes(whole)
        os.utime(folder / name, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.join(120)
    assert not other.is_alive()
    assert damaged_files(folder, thorough=True) == []


def test_who_holds_the_lock_has_decided(unit: Unit) -> None:
    """A caller with the lock does not wait for itself, and may remove a whole package."""
    folder, _, _ = unit
    with locked(folder.parent / ".locks" / folder.name):
        remove(folder)
        assert not folder.exists()
        remove(folder)


def test_what_cannot_be_removed(unit: Unit) -> None:
    folder, _, name = unit
    flip(folder / name)
    shutil.rmtree(folder.parent / ".locks", ignore_errors=True)
    (folder.parent / ".locks").write_text("in the way")
    with pytest.raises(InfrastructureError, match=f"^{folder} cannot be removed: "):
        remove(folder)
