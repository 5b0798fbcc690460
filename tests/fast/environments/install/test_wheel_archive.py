"""Unpack wheels: paths, RECORD, and hostile members."""

from __future__ import annotations

import csv
import os
import stat
import threading
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import Cancelled
from mlir_matrix.environments.install.wheel_archive import unpack_wheel
from mlir_matrix.environments.installed.integrity import damaged_files
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from support.wheelhouse import hashed, wheel

W = WheelPackage(name="w", version="1.0", hashes=("0" * 64,))
METADATA = b"Metadata-Version: 2.1\nName: w\nVersion: 1.0\n"


def archive(path: Path, *members: tuple[str, bytes, int]) -> Path:
    """A zip file with members of these names, contents and modes, whatever they are."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data, mode in members:
            info = zipfile.ZipInfo("x")
            info.filename, info.external_attr, info.compress_type = name, mode << 16, zipfile.ZIP_DEFLATED
            with pytest.warns(UserWarning, match="Duplicate") if name in made.namelist() else nullcontext():
                made.writestr(info, data)
    return path


def unpacked(path: Path, cancelled: threading.Event | None = None) -> Path:
    folder = path.with_name("inner") / "unpacked"
    folder.mkdir(parents=True)
    unpack_wheel(path, folder, W, cancelled or threading.Event())
    return folder


def beside(folder: Path) -> list[str]:
    """Return the paths around the folder."""
    return sorted(path.name for path in folder.parent.iterdir()) + sorted(
        path.name for path in folder.parents[1].iterdir()
    )


def test_files_and_where_they_belong(tmp_path: Path) -> None:
    """As pip's --target puts them; what is executable stays so; programs are in bin, scripts and headers nowhere."""
    path = archive(
        tmp_path / "w.whl",
        ("w/__init__.py", b"1", 0o100644),
        ("w/bin/tool", b"2", 0o100755),
        ("w/", b"", 0o40755),
        ("w-1.0.data/purelib/w/more.py", b"3", 0o100600),
        ("w-1.0.data/platlib/w.libs/l.so", b"4", 0o100755),
        ("w-1.0.data/data/share/x", b"5", 0),
        ("w-1.0.data/scripts/w", b"#!python\n", 0o100755),
        ("w-1.0.data/scripts/run", b"\x7fELF6", 0o100755),
        ("w-1.0.data/headers/w.h", b"7", 0o100644),
        ("w-1.0.dist-info/METADATA", METADATA, 0o100644),
    )
    folder = unpacked(path)
    found = {each.relative_to(folder).as_posix(): each for each in folder.rglob("*") if each.is_file()}
    assert {name: each.read_bytes() for name, each in found.items()} == {
        "w/__init__.py": b"1", "w/bin/tool": b"2", "w/more.py": b"3", "w.libs/l.so": b"4", "share/x": b"5",
        "bin/run": b"\x7fELF6",
        "w-1.0.dist-info/METADATA": METADATA,
    }  # fmt: skip
    assert {name for name, each in found.items() if os.access(each, os.X_OK) and each.stat().st_mode & 0o100} == {
        "w/bin/tool", "w.libs/l.so", "bin/run",
    }  # fmt: skip


def test_the_record_says_where_files_are_now(tmp_path: Path) -> None:
    """So that damage to any of them is found."""
    more = {"w-1.0.data/purelib/w too.py": b"a", "w-1.0.data/scripts/w": b"#!b", "w/c": b"c"}
    wheel(tmp_path, "w", more=more)
    folder = unpacked(tmp_path / "w-1.0-py3-none-any.whl")
    rows = list(csv.reader((folder / "w-1.0.dist-info" / "RECORD").read_text().splitlines()))
    assert {row[0] for row in rows} == {
        "w.py", "w too.py", "w/c", *(f"w-1.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD"))
    }  # fmt: skip
    assert ["w too.py", hashed(b"a"), "1"] in rows
    assert damaged_files(folder, thorough=True) == damaged_files(folder, thorough=False) == []
    (folder / "w too.py").write_bytes(b"b")
    assert damaged_files(folder, thorough=True) == ["w too.py"]


LINK = stat.S_IFLNK | 0o777
FILE = stat.S_IFREG | 0o644


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("/etc/passwd", FILE)], "'/etc/passwd' leads out of the folder"),
        ([("../x", FILE)], "'../x' leads out of the folder"),
        ([("a/../../x", FILE)], "leads out of the folder"),
        ([("w.data/purelib/../../../x", FILE)], "leads out of the folder"),
        ([("..\\x", FILE)], "leads out of the folder"),
        ([("C:\\x", FILE)], "leads out of the folder"),
        ([(".", FILE)], "leads out of the folder"),
        ([("x", LINK)], "'x' is not a regular file"),
        ([("x", LINK), ("x/y", FILE)], "'x' is not a regular file"),
        ([("x", stat.S_IFIFO)], "'x' is not a regular file"),
        ([("x", stat.S_IFCHR)], "'x' is not a regular file"),
        ([("x", FILE), ("x", FILE)], "several members have the path 'x'"),
        ([("y/x", FILE), ("w.data/purelib/y/x", FILE)], "several members have the path 'y/x'"),
        ([("x", FILE), ("x/y", FILE)], "several members have the path 'x"),
        ([("x/y", FILE), ("x", FILE)], "several members have the path 'x'"),
        ([(".matrix/files.json", FILE)], "'.matrix/files.json' is in .matrix, which holds our own files"),
        ([("./.matrix/archives.json", FILE)], "is in .matrix"),
        ([("w.data/purelib/.matrix/archives.json", FILE)], "is in .matrix"),
        ([("w.data/data/.matrix", FILE)], "is in .matrix"),
        ([("w.dist-info/RECORD/x", FILE)], "several members have the path 'w.dist-info/RECORD'"),
    ],
)
def test_hostile_wheels(tmp_path: Path, members: list[tuple[str, int]], words: str) -> None:
    path = archive(tmp_path / "w.whl", *((name, b"/etc", mode) for name, mode in members))
    with pytest.raises(InfrastructureError) as caught:
        unpacked(path)
    assert str(caught.value).startswith("w 1.0 is hostile: ")
    assert words in str(caught.value)
    assert beside(tmp_path / "inner" / "unpacked") == ["unpacked", "inner", "w.whl"]


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"w.dist-info/METADATA": b"Name: v\nVersion: 1.0\n"}, "is another package: its w.dist-info/METADATA states 'v 1.0'"),
        ({"w.dist-info/METADATA": b"Name: w\nVersion: 1.1\n"}, "is another package: its w.dist-info/METADATA states 'w 1.1'"),
        ({"w.dist-info/METADATA": b"Name: w\n\nVersion: 1.0\n"}, "states 'w None'"),
        ({"w.dist-info/METADATA": b"\xff"}, "states 'None None'"),
        ({"w.dist-info/METADATA": b"Name: v\nVersion: 1.0\nName: w\n"}, "states 'v 1.0'"),
        ({}, "expected one *.dist-info with METADATA, got none"),
        ({"w.dist-info/RECORD": b""}, "expected one *.dist-info with METADATA, got w.dist-info"),
        ({"v.dist-info/METADATA": METADATA, "w.data/platlib/w.dist-info/METADATA": METADATA}, "got v.dist-info, w.dist-info"),
    ],
)  # fmt: skip
def test_another_package(tmp_path: Path, stated: dict[str, bytes], words: str) -> None:
    """What the wheel states must be what the lock file states."""
    path = archive(tmp_path / "w.whl", ("x.py", b"", FILE), *((name, data, FILE) for name, data in stated.items()))
    with pytest.raises(InfrastructureError) as caught:
        unpacked(path)
    assert str(caught.value).startswith("w 1.0 is ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "version", "stated"),
    [
        ("Zope.Interface_x", "5.0", b"name: zope-interface.x\r\nVERSION: 5.0.0 \r\n\r\nVersion: 6\r\n"),
        ("torch", "2.13.0", b"Name: torch\nVersion: 2.13.0+cpu\n"),
        ("w", "2026.1rc1", b"Name: w\nVersion: 2026.01-RC.1\n"),
    ],
)
def test_other_spellings_of_the_same_package(tmp_path: Path, name: str, version: str, stated: bytes) -> None:
    path = archive(tmp_path / "w.whl", ("w.dist-info/METADATA", stated, FILE))
    unpack_wheel(path, tmp_path / "folder", replace(W, name=name, version=version), threading.Event())


def bomb(path: Path) -> tuple[Path, int]:
    """A wheel with a million zeros, and the bytes of its files."""
    path = archive(path, ("x", bytes(1_000_000), FILE), ("w.dist-info/METADATA", METADATA, FILE))
    return path, 1_000_000 + len(METADATA)


def test_no_more_than_stated(tmp_path: Path) -> None:
    path, size = bomb(tmp_path / "w.whl")
    unpack_wheel(path, tmp_path / "folder", replace(W, installed=size), threading.Event())
    small = replace(W, installed=size - 1)
    words = f"^w 1.0 is hostile: its files have {size} bytes, expected at most {size - 1}, as its lock file states$"
    with pytest.raises(InfrastructureError, match=words):
        unpack_wheel(path, tmp_path / "refused", small, threading.Event())
    assert not (tmp_path / "refused").exists()
    # Where nothing is stated, or about another build: a multiple of the archive.
    most = 100 * path.stat().st_size
    assert most < size
    for package in (W, replace(W, installed=size, hashes=("0" * 64, "1" * 64))):
        with pytest.raises(InfrastructureError, match=f"expected at most {most}, 100 times its own size$"):
            unpack_wheel(path, tmp_path / "refused", package, threading.Event())


def test_a_member_that_is_longer_than_listed(tmp_path: Path) -> None:
    """No more is written than its size in the directory of the archive."""
    path, size = bomb(tmp_path / "w.whl")
    data = path.read_bytes()
    path.write_bytes(data.replace((1_000_000).to_bytes(4, "little"), (5).to_bytes(4, "little")))
    folder = tmp_path / "folder"
    with pytest.raises(InfrastructureError, match="is not a valid wheel: Bad CRC-32"):
        unpack_wheel(path, folder, replace(W, installed=size - 1_000_000 + 5), threading.Event())
    assert (folder / "x").stat().st_size <= 5


def broken(name: str, data: bytes) -> bytes:
    at = data.index(b"PK\x01\x02")
    return {
        "truncated": data[:-30],
        "no directory": data[:at],
        "empty": b"",
        "text": b"no archive",
        "flipped": data[:60] + bytes([data[60] ^ 0xFF]) + data[61:],
        "encrypted": data[:at] + data[at:].replace(data[at : at + 10], data[at : at + 8] + b"\x01\x00", 1),
        "method": data[:at] + data[at:].replace(data[at : at + 12], data[at : at + 10] + b"\x63\x00", 1),
    }[name]


@pytest.mark.parametrize("name", ["truncated", "no directory", "empty", "text", "flipped", "encrypted", "method"])
def test_invalid_archive_is_refused(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path / "w.whl", ("x.py", bytes(range(200)), FILE))
    path.write_bytes(broken(name, path.read_bytes()))
    with pytest.raises(InfrastructureError, match=r"^w 1\.0 is not a valid wheel: "):
        unpacked(path)


def test_a_record_that_nobody_can_read(tmp_path: Path) -> None:
    for number, data in enumerate((b"\xff\n", b'"' + b"x" * 200_000)):
        path = archive(tmp_path / f"w{number}.whl", ("w.dist-info/RECORD", data, FILE))
        with pytest.raises(InfrastructureError, match="is not a valid wheel"):
            unpack_wheel(path, tmp_path / f"{number}", replace(W, installed=300_000), threading.Event())


def test_cancelled_while_unpacking(tmp_path: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()
    wheel(tmp_path, "w")
    with pytest.raises(Cancelled):
        unpacked(tmp_path / "w-1.0-py3-none-any.whl", cancelled)


def test_the_record_has_all_of_them(tmp_path: Path) -> None:
    """RECORD lists every file, also those that the wheel's own RECORD omits or misspells."""
    more = {
        "w/unlisted.py": b"a",
        "w/short.py": b"b",
        "w/unsized.py": b"c",
        "w/v.dist-info/RECORD": b"d,,\n",
        "w/odd,\u2028": b"e",
    }
    wheel(tmp_path, "w", more=more)
    path = tmp_path / "w-1.0-py3-none-any.whl"
    record = "".join(
        {"w/unlisted.py": "", "w/short.py": "w/short.py\n", "w/unsized.py": f"w/unsized.py,{hashed(b'c')},x\n\n"}.get(
            name, ""
        )
        or (f"{name},{hashed(data)},{len(data)}\n" if name == "w/v.dist-info/RECORD" else "")
        for name, data in more.items()
    )
    with zipfile.ZipFile(path) as old:
        members = [(info, old.read(info)) for info in old.infolist()]
    with zipfile.ZipFile(path, "w") as new:
        for info, data in members:
            new.writestr(info, record.encode() if info.filename == "w-1.0.dist-info/RECORD" else data)
    folder = unpacked(path)
    with open(folder / "w-1.0.dist-info" / "RECORD", newline="") as file:
        rows = {name: rest for name, *rest in csv.reader(file)}
    assert rows.pop("w-1.0.dist-info/RECORD") == ["", ""]
    assert rows == {name: [hashed(data), str(len(data))] for name, data in more.items()} | {
        name: [hashed((folder / name).read_bytes()), str((folder / name).stat().st_size)]
        for name in ("w.py", "w-1.0.dist-info/METADATA", "w-1.0.dist-info/WHEEL")
    }
    assert damaged_files(folder, thorough=True) == damaged_files(folder, thorough=False) == []
