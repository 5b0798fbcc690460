"""The uses of results: recorded before a look-up, by processes that run and by day."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlir_matrix.execute.use_log import UseLog, add_uses, is_of_today, prune_uses, read_uses

A, B, C = "a" * 64, "b" * 64, "1" * 64
DAY = 86_400


@pytest.fixture
def today() -> int:
    """The number of this day, asked when the test begins."""
    return int(time.time() // DAY)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[list[UseLog]]:
    """Logs of two processes."""
    made = [UseLog(str(tmp_path / "uses")) for _ in range(2)]
    for log in made:
        log.open()
    yield made
    for log in made:
        log.close()


def test_keys_of_running_processes_are_in_use(logs: list[UseLog], tmp_path: Path) -> None:
    before = time.time_ns()
    logs[0].note(A)
    logs[0].note(A)
    logs[1].note(C)
    uses = read_uses(str(tmp_path / "uses"))
    assert uses.in_use == uses.last.keys() == {A[:16], C[:16]}
    assert before - 10**9 < uses.began < before + 10**9
    logs[0].close()
    uses = read_uses(str(tmp_path / "uses"))
    assert uses.in_use == {C[:16]}
    assert uses.last.keys() == {A[:16], C[:16]}
    logs[1].close()
    assert read_uses(str(tmp_path / "uses")).began == float("inf")


def test_the_next_process_keeps_the_keys_by_day(logs: list[UseLog], tmp_path: Path, today: int) -> None:
    folder = tmp_path / "uses"
    logs[0].note(A)
    logs[0].close()
    then = (today - 3) * DAY + 5
    os.utime(folder / "process-0", (then, then))
    logs[0].open()
    logs[0].note(B)
    assert (folder / str(today - 3)).read_text().split() == [A[:16]]
    uses = read_uses(str(folder))
    assert uses.in_use == {B[:16]}
    assert uses.last[A[:16]] == (today - 2) * DAY


def test_torn_files_lose_nothing_else(tmp_path: Path, today: int) -> None:
    """As after a full disk or a power failure."""
    folder = tmp_path / "uses"
    folder.mkdir()
    (folder / str(today)).write_bytes(b"abc\xff")
    (folder / "process-0").write_bytes(b"17")
    add_uses(str(folder), [A])
    log = UseLog(str(folder))
    log.open()
    log.note(B)
    uses = read_uses(str(folder))
    log.close()
    assert {A[:16], B[:16]} <= uses.last.keys()
    assert uses.in_use == {B[:16]}


def test_earlier_days_keep_last_uses_only(tmp_path: Path, today: int) -> None:
    folder = tmp_path / "uses"
    folder.mkdir()
    for day, keys in ((today - 3, [A, B]), (today - 2, [B, C]), (today - 1, [A, B]), (today, [A])):
        add_uses(str(folder), keys, day=day)
    before = read_uses(str(folder)).last
    assert not (folder / str(today - 3)).exists(), "the first use of a day has pruned those before"
    prune_uses(str(folder), {A[:16], B[:16]})
    assert read_uses(str(folder)).last == {key: used for key, used in before.items() if key != C[:16]}
    assert sorted(os.listdir(folder)) == [str(today - 1), str(today)]


def test_without_a_folder_nothing_is_recorded_or_made(tmp_path: Path) -> None:
    log = UseLog(str(tmp_path / "no" / "uses"))
    log.open()
    log.note(A)
    assert not (tmp_path / "no").exists()
    assert read_uses(str(tmp_path / "no" / "uses")).last == {}
    (tmp_path / "file").write_text("x")
    assert is_of_today(str(tmp_path / "file"))
    os.utime(tmp_path / "file", (0, 0))
    assert not is_of_today(str(tmp_path / "file"))
