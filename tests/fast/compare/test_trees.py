"""Files and folders that are not as one would like them."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from mlir_matrix.base.errors import UsageError
from mlir_matrix.compare.commands import compare_command as command
from mlir_matrix.compare.trees import CompareOptions, compare_paths

HOW = CompareOptions()


def _two(folder: Path) -> tuple[Path, Path]:
    for name in ("actual", "expected"):
        (folder / name).mkdir()
        np.save(folder / name / "x.npy", np.ones(4))
    return folder / "actual", folder / "expected"


def test_what_a_link_leads_to_is_compared(tmp_path: Path) -> None:
    actual, expected = _two(tmp_path)
    for folder, value in ((actual, 1.0), (expected, 2.0)):
        elsewhere = tmp_path / f"of-{folder.name}"
        elsewhere.mkdir()
        np.save(elsewhere / "y.npy", np.full(3, value))
        (folder / "linked").symlink_to(elsewhere)
    assert [bool(one) for one in compare_paths(actual, expected, HOW)] == [False, True]  # linked/y.npy, x.npy
    (expected / "linked" / "again").symlink_to(expected)
    with pytest.raises(UsageError, match="leads back"):
        list(compare_paths(actual, expected, HOW))


def test_a_pipe_is_no_empty_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        list(compare_paths(tmp_path / "pipe", tmp_path / "pipe", HOW))


def test_more_files_than_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    actual, expected = _two(tmp_path)
    for folder in (actual, expected):
        for number in range(100):
            np.save(folder / f"{number}.npy", np.ones(4))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    here = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (here + 40, hard))
    try:
        result = CliRunner().invoke(command, [str(actual), str(expected)], standalone_mode=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "101 comparisons: 101 pass" in result.output


@pytest.mark.parametrize("shape", ["(-1, -4)", "(True, 4)", "(0, -5)", "(0, 10**30)", "(" + "1, " * 70 + ")"])
def test_headers_of_arrays_that_cannot_be(tmp_path: Path, shape: str) -> None:
    shape = shape.replace("10**30", str(10**30))
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(16))
    with pytest.raises(UsageError, match="no array has the shape"):
        list(compare_paths(path, path, HOW))


@pytest.mark.parametrize("kind", ["lzma", "version", "name"])
def test_archives_that_are_broken(tmp_path: Path, kind: str) -> None:
    import zipfile

    path = tmp_path / "x.npz"
    _two(tmp_path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.write(tmp_path / "actual" / "x.npy", "x.npy")
    data = bytearray(path.read_bytes())
    directory = data.index(b"PK\x01\x02")
    if kind == "lzma":
        data[60:90] = bytes(byte ^ 0x5A for byte in data[60:90])
    elif kind == "version":
        data[directory + 6] = 255
    else:
        data[directory + 9] |= 8  # the name is UTF-8
        data[directory + 46] = 0x99
    path.write_bytes(data)
    try:
        found = [getattr(one, "reason", "") for one in compare_paths(path, path, HOW)]
    except UsageError as error:
        found = [str(error)]
    assert "not a readable array" in found[0]


def test_a_picture_that_cannot_be_written(tmp_path: Path) -> None:
    actual, expected = _two(tmp_path)
    arguments = [str(actual), str(expected), "--picture", str(tmp_path / "nowhere" / "x.png")]
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert isinstance(result.exception, UsageError)


def test_a_cosine_that_is_no_number(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, [*map(str, _two(tmp_path)), "--cosine", "nan"], standalone_mode=False)
    assert isinstance(result.exception, UsageError)
