"""Read headers of programs and libraries."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mlir_matrix.environments.installed.elf import read_elf
from support.debs import elf


@pytest.mark.parametrize(
    ("data", "programs", "own"),
    [
        (elf(), True, False),
        (elf(runpath=True), True, True),
        (elf(interpreted=False), False, False),
        (elf(interpreted=False, runpath=True), False, True),
    ],
)
def test_elf_of_dynamic_files(tmp_path: Path, data: bytes, programs: bool, own: bool) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    found = read_elf(path)
    assert found is not None
    assert (found.interpreted, found.runpath) == (programs, own)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"#!/bin/sh",
        b"\x7fELF\x02\x01",
        b"\x7fELF\x01\x01" + bytes(90),
        elf(machine=183),
        elf(dynamic=False),
        elf()[:50],
        elf()[:70],
        b"\x7fELF\x02\x01" + b"\xff" * 300,
    ],
    ids=["empty", "script", "magic", "32 bits", "aarch64", "static", "half a header", "half a table", "nonsense"],
)  # fmt: skip
def test_elf_of_other_files_is_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    assert read_elf(tmp_path / "x") is None
    assert read_elf(tmp_path / "none") is None


def test_elf_of_the_interpreter() -> None:
    found = read_elf(Path(os.path.realpath(sys.executable)))
    assert found is not None
    assert found.interpreted
