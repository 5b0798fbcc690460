"""Unpack wheels: paths, RECORD, and hostile members."""

from __future__ import annotations

import csv
import os
import stat
import threading
import zipfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from mlir_matrix.environments.install.integrity import damaged_files
from mlir_matrix.environments.install.wheel_archive import unpack_wheel
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.files import Cancelled
from support.wheelhouse import hashed, wheel


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
    unpack_wheel(path, folder, "w 1.0", cancelled or threading.Event())
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
        ("w-1.0.dist-info/METADATA", b"8", 0o100644),
    )
    folder = unpacked(path)
    found = {each.relative_to(folder).as_posix(): each for each in folder.rglob("*") if each.is_file()}
    assert {name: each.read_bytes() for name, each in found.items()} == {
        "w/__init__.py": b"1", "w/bin/tool": b"2", "w/more.py": b"3", "w.libs/l.so": b"4", "share/x": b"5",
        "bin/run": b"\x7fELF6",
        "w-1.0.dist-info/METADATA": b"8",
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
def test_archives_that_are_none(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path / "w.whl", ("x.py", bytes(range(200)), FILE))
    path.write_bytes(broken(name, path.read_bytes()))
    with pytest.raises(InfrastructureError, match=r"^w 1\.0 is not a valid wheel: "):
        unpacked(path)


def test_a_record_that_nobody_can_read(tmp_path: Path) -> None:
    for number, data in enumerate((b"\xff\n", b'"' + b"x" * 200_000)):
        path = archive(tmp_path / f"w{number}.whl", ("w.dist-info/RECORD", data, FILE))
        with pytest.raises(InfrastructureError, match="is not a valid wheel"):
            unpack_wheel(path, tmp_path / f"{number}", "w 1.0", threading.Event())


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
