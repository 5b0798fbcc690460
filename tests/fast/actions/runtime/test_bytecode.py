"""Compiled Python that is damaged counts as absent."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mlir_matrix.actions.runtime import bytecode

TOOLS = Path(bytecode.__file__).parents[3]
#: A program that imports a module of the standard library and one of its own.
PROGRAM = "import colorsys, thing; print(colorsys.rgb_to_yiq(1, 1, 1)[0] > 0.99, thing.found(3))"
THING = "def found(number):\n    return [number * each for each in (1, 2)]\n"
SAYS = "True [3, 6]\n"


def program(folder: Path, made: Path) -> str:
    """What the program says, whose compiled Python is in the folder ``made``."""
    words = [sys.executable, "-P", "-s", *bytecode.options(made), "-c", f"import mlir_matrix; {PROGRAM}"]
    env = {"PYTHONPATH": f"{TOOLS}:{folder}"}
    return subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def thing(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "thing.py").write_text(THING)
    return folder


def cut(data: bytes) -> bytes:
    return data[:100]


def zeros(data: bytes) -> bytes:
    return data[:40] + bytes(len(data) - 40)


def one_bit(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[random.Random(len(data)).randrange(16, len(data))] ^= 1
    return bytes(changed)


def nothing(_: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [cut, zeros, one_bit, nothing])
def test_damaged_files_are_made_again(damage: Callable[[bytes], bytes], thing: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    assert program(thing, made) == SAYS
    files = {path: path.read_bytes() for path in made.rglob("*.pyc")}
    assert {"thing", "colorsys"} == {path.name.split(".")[0] for path in files}
    for path, data in files.items():
        path.write_bytes(damage(data))
    assert program(thing, made) == SAYS
    assert {path: path.read_bytes() for path in made.rglob("*.pyc")} == files


def test_files_that_are_whole_are_read(thing: Path, tmp_path: Path) -> None:
    """The source is not looked at while its time and size stay."""
    made = tmp_path / "made"
    program(thing, made)
    (path,) = made.rglob("thing.*.pyc")
    source = thing / "thing.py"
    before = source.stat()
    source.write_text(THING.replace("(1, 2)", "(3, 4)"))
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert program(thing, made) == SAYS
    path.unlink()
    assert program(thing, made) == "True [9, 12]\n"


def test_all_modules_are_compiled_and_none_runs(thing: Path, tmp_path: Path) -> None:
    (thing / "more").mkdir()
    (thing / "more/ends.py").write_text("raise SystemExit(3)\n")
    (thing / "more/two.py").write_text("print 'Python 2'\n")
    (thing / "more/zero.py").write_bytes(b"x = 1\0\n")
    code = (
        f"import mlir_matrix; from mlir_matrix.actions.runtime.bytecode import compile_all; compile_all({str(thing)!r})"
    )
    made = tmp_path / "made"
    words = [sys.executable, "-P", "-s", *bytecode.options(made), "-c", code]
    subprocess.run(words, env={"PYTHONPATH": str(TOOLS)}, check=True)
    assert sorted(path.name.split(".")[0] for path in made.glob(f"**{thing}/**/*.pyc")) == ["ends", "thing"]
    # An interpreter that knows nothing of this reads them.
    words = [sys.executable, "-P", "-s", "-X", f"pycache_prefix={made}", "-B", "-v", "-c", "import thing"]
    done = subprocess.run(words, env={"PYTHONPATH": str(thing)}, capture_output=True, text=True, check=True)
    assert f"code object from '{made}{thing}/thing." in done.stderr


def test_without_options_nothing_changes(thing: Path) -> None:
    words = [sys.executable, "-P", "-s", "-c", "import mlir_matrix, sys, thing; print(sys.pycache_prefix)"]
    env = {"PYTHONPATH": f"{TOOLS}:{thing}", "PYTHONDONTWRITEBYTECODE": "1"}
    assert subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout == "None\n"
