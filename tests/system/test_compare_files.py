"""``matrix compare`` as people call it: on files, folders, texts, and on files that somebody broke or made up."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.downstream import npy
from support.workspace import Finished, Workspace

RIGHT = np.random.default_rng(1).normal(size=(33, 97)).astype(np.float32)

Compare = Callable[..., Finished]


@pytest.fixture
def compare(workspace: Workspace, tmp_path: Path) -> Compare:
    """Calls it on files whose contents are given: arrays are saved, bytes written."""

    def call(actual: Any, expected: Any, *options: str, code: int | None = None) -> Finished:
        paths = [_saved(tmp_path / name, content) for name, content in (("actual", actual), ("expected", expected))]
        done = workspace("compare", *paths, *options)
        assert "Traceback" not in done.stderr
        assert "internal error" not in done.stderr
        if code is not None:
            assert done.code == code, (done.stdout, done.stderr)
        return done

    return call


def _saved(path: Path, content: Any) -> Path:
    if isinstance(content, np.ndarray):
        np.save(path.with_suffix(".npy"), content, allow_pickle=True)
        return path.with_suffix(".npy")
    if isinstance(content, dict):
        path.mkdir(exist_ok=True)
        for name, inner in content.items():
            _saved(path / name, inner)
        return path
    path.write_bytes(content)
    return path


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def header(text: str) -> bytes:
    """The first bytes of a .npy file with this header."""
    padded = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode()


HUGE = header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,), }")


def test_equal_arrays_pass(compare: Compare) -> None:
    assert compare(RIGHT, RIGHT, code=0).stdout == "pass: all 3201 elements are equal\n"


def test_a_census_of_what_is_wrong(compare: Compare, tmp_path: Path) -> None:
    actual = RIGHT.copy()
    actual[:, 96] = 0
    done = compare(
        actual, RIGHT, "--rtol", "1e-5", "--atol", "8*eps(f32)", "--picture", str(tmp_path / "map.svg"), code=1
    )
    for words in (
        "33 of 3201 elements",
        "a remainder, after tiles of 32",
        "the worst 5",
        "rtol 1e-05",
        "nothing was written",
    ):
        assert words in " ".join(done.stdout.split()), done.stdout
    assert max(map(len, done.stdout.splitlines()[1:])) <= 100
    assert (tmp_path / "map.svg").read_text().startswith("<svg")
    document = compare(actual, RIGHT, "--rtol", "1e-5", "--format", "json", code=1).document
    assert document["schema"] == "mlir-matrix/comparison/v1"
    assert document["summary"] == {"total": 1, "pass": 0, "mismatch": 1, "unreadable": 0}
    (record,) = document["comparisons"]
    assert (record["wrong"], record["outcome"], record["over_rtol"]) == (33, "mismatch", 33)


@pytest.mark.parametrize(
    "bound", [("--rtol", "1e-3"), ("--atol", "0.01"), ("--max-ulp", "20000"), ("--l2", "1e-3"), ("--cosine", "0.99")]
)
def test_each_bound_can_let_it_pass(compare: Compare, bound: tuple[str, str]) -> None:
    compare(RIGHT * np.float32(1.0005), RIGHT, code=1)
    compare(RIGHT * np.float32(1.0005), RIGHT, *bound, code=0)


def test_raw_elements(compare: Compare) -> None:
    words = (RIGHT.view(np.uint32) >> 16).astype(np.uint16)
    other = words.copy()
    other[5, 6] += 1
    compare(words.tobytes(), words.tobytes(), "--dtype", "bf16", "--shape", "33,97", code=0)
    done = compare(other.tobytes(), words.tobytes(), "--dtype", "bf16", "--shape", "33x97", code=1)
    assert "[5, 6]" in done.stdout
    assert "bf16 [33, 97]" in done.stdout
    compare(other.tobytes(), words.tobytes(), "--dtype", "bf16", "--max-ulp", "1", code=0)
    done = compare(words.tobytes()[:-1], words.tobytes(), "--dtype", "bf16", "--shape", "33,97", code=2)
    assert "has 6401 bytes; bf16 [33, 97] takes 6402" in done.stderr


def test_archives_and_folders_go_pair_by_pair(compare: Compare) -> None:
    done = compare(npz(x=RIGHT, y=RIGHT, only=RIGHT), npz(x=RIGHT, y=RIGHT + 1, z=RIGHT), code=1)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("pass", "mismatch"))]
    assert lines[0] == "mismatch only: there is no such array among the expected ones"
    assert lines[1] == "pass x: all 3201 elements are equal"
    assert lines[2].startswith("mismatch y: 3201 of 3201 elements")
    assert lines[3] == "mismatch z: the array is missing"
    assert done.stdout.endswith("4 comparisons: 1 pass, 3 mismatch\n")


def test_folders_go_file_by_file(compare: Compare) -> None:
    inner = {"a.npy": npy(RIGHT), "deep": {"b.txt": b"x 1.0\n"}}
    assert "pass deep/b.txt: all 1 elements are equal" in compare(inner, inner, code=0).stdout


def test_files_that_only_one_folder_has(compare: Compare) -> None:
    done = compare({"a": npy(RIGHT), "more.npy": npy(RIGHT)}, {"a": npy(RIGHT), "c.npy": npy(RIGHT)}, code=1)
    assert "mismatch c.npy: the file is missing" in done.stdout
    assert "mismatch more.npy: there is no such file among the expected ones" in done.stdout


def test_one_broken_file_does_not_hide_the_others(compare: Compare) -> None:
    done = compare({"a": npy(RIGHT), "b": b""}, {"a": npy(RIGHT), "b": b""}, code=2)
    assert "pass a:" in done.stdout
    assert "the file is empty" in done.stderr


def test_texts(compare: Compare) -> None:
    compare(b"step 1: loss=0.50000001\n", b"step  1: loss=5e-1\n", "--rtol", "1e-6", code=0)
    done = compare(b"step 1\nloss = 0.51 nan", b"step 1\nloss = 0.5 nan", code=1)
    assert "1 of 3 elements" in done.stdout
    assert "(line 2, column 8)" in done.stdout
    assert "line 1, column 1: the texts differ" in compare(b"step 1", b"stop 1", "--atol", "9", code=1).stdout
    compare(b"a\n1", b"a 1", code=1)
    compare(b"a\n1", b"a 1", "--ignore-whitespace", code=0)
    assert "there are no numbers" in compare(b"fine", b"fine", code=0).stdout


@pytest.mark.parametrize(
    ("actual", "expected", "code", "words"),
    [
        (b"", npy(RIGHT), 2, "the file is empty"),
        (b"", b"", 2, "the file is empty"),
        (b" \n", b" \n", 1, "nothing but white space"),
        (npy(RIGHT[:0]), npy(RIGHT[:0]), 1, "there are no elements"),
        (npy(RIGHT)[:-5], npy(RIGHT), 2, "truncated"),
        (npy(RIGHT)[:40], npy(RIGHT), 2, "not a readable array"),
        (npy(RIGHT) + b"x", npy(RIGHT), 2, "too long"),
        (HUGE, HUGE, 2, "truncated: 0 bytes of data, not 4000000000"),
        (HUGE + bytes(400), npy(RIGHT), 2, "truncated"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }"), npy(RIGHT), 2, "not a readable array"),
        (header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"), npy(RIGHT), 2, "Python objects"),
        (header("{'descr': __import__('os'), 'fortran_order': False}"), npy(RIGHT), 2, "not a readable array"),
        (header("{'descr': '<U4', 'fortran_order': False, 'shape': (0,), }"), npy(RIGHT), 2, "not numbers"),
        (pickle.dumps([1.0]), npy(RIGHT), 2, "looks like a pickle, which is never loaded"),
        (b"PK\x03\x04 is no archive", npz(x=RIGHT), 2, "not a readable array"),
        (npz(), npz(), 2, "holds no arrays"),
        (npy(RIGHT.astype(">f4")), npy(RIGHT), 1, "actual is big-endian"),
        (npy(RIGHT), npy(RIGHT.astype(">f4")), 1, "expected is big-endian"),
        (npy(np.full(5, np.nan)), npy(np.full(5, np.nan)), 1, "nothing but NaN is expected"),
        (npy(np.full(5, np.nan)), npy(np.ones(5)), 1, "5 of 5 elements"),
        (npy(RIGHT), npy(RIGHT.astype("f8")), 1, "the dtype is f32, not f64"),
        (npy(RIGHT), npy(RIGHT.T), 1, "the shape is [33, 97], not [97, 33]"),
        (npy(RIGHT), b"1 2 3", 1, "an array cannot be compared with text"),
        (b"\0\1\2\3", b"\0\1\2\3", 2, "for raw elements give --dtype"),
        ({}, {}, 2, "holds no files"),
        ({}, {"a": b"1"}, 1, "the file is missing"),
        (b"1", {"a": b"1"}, 2, "is a folder and"),
    ],
)  # fmt: skip
def test_what_is_broken_never_passes(compare: Compare, actual: Any, expected: Any, code: int, words: str) -> None:
    done = compare(actual, expected, "--atol", "1e30", "--rtol", "1e30", code=code)
    assert words in done.stdout + done.stderr, (done.stdout, done.stderr)
    assert not done.stdout.startswith("pass")


def test_archives_that_lie(compare: Compare) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", HUGE)
        archive.writestr("y.npy", npy(RIGHT))
    done = compare(file.getvalue(), file.getvalue(), code=2)
    assert "its member x: truncated" in done.stderr
    assert "pass y" in done.stdout
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("../evil.py", b"print(1)")
    assert "which is not an array" in compare(file.getvalue(), file.getvalue(), code=2).stderr
    broken = bytearray(npz(x=RIGHT))
    broken[200] ^= 0xFF
    assert "its member x" in compare(bytes(broken), npz(x=RIGHT), code=2).stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rtol", "-1"), "-1 is no bound"),
        (("--atol", "8*eps(f31)"), "a bound is a number, or an expression"),
        (("--rtol", "nan"), "nan is no bound"),
        (("--dtype", "f23"), "there is no dtype 'f23'"),
        (("--shape", "3"), "--shape requires --dtype"),
        (("--dtype", "f32", "--shape", "3,a"), "expected sizes with commas"),
        (("--picture", "map.jpg"), "a .png or .svg file"),
    ],
)
def test_options_that_are_wrong(compare: Compare, options: tuple[str, ...], words: str) -> None:
    assert words in compare(RIGHT, RIGHT, *options, code=2).stderr


def test_files_that_are_not_there(workspace: Workspace, tmp_path: Path) -> None:
    done = workspace("compare", tmp_path / "a", tmp_path / "b")
    assert (done.code, "there is no file or folder" in done.stderr) == (2, True)


def test_json_is_json(compare: Compare) -> None:
    special = np.array([np.nan, np.inf, -np.inf, 1.0])
    text = compare(special, special[::-1].copy(), "--format", "json", code=1).stdout
    assert json.loads(text, parse_constant=pytest.fail)["comparisons"][0]["wrong"] == 4


def test_the_document_is_as_its_schema_says(compare: Compare) -> None:
    from mlir_matrix.schema.export import adapter

    actual = RIGHT.copy()
    actual[5] = np.inf
    ours = {"a": npy(actual), "b": b"x 1 2", "c": b"fine", "d": b"", "e": npz(x=RIGHT)}
    theirs = {**ours, "a": npy(RIGHT), "b": b"x 1 3", "e": npz(x=RIGHT, y=RIGHT)}
    document = compare(ours, theirs, "--format", "json", "--max-ulp", "2", code=2).document
    found = adapter("comparison").validate_python(document)
    assert [one["outcome"] for one in found["comparisons"]] == [
        "mismatch",
        "mismatch",
        "pass",
        "unreadable",
        "pass",
        "mismatch",
    ]
    assert found["summary"]["unreadable"] == 1
