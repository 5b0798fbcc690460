"""Candidates are tested ahead of time, each once, and in their order."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.events import ignore
from mlir_matrix.reduce.lines import Lines
from mlir_matrix.reduce.tester import ParallelTester, Progress, read_tried


class Threads:
    """Threads without workers."""

    size = 2

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads

    def submit(self, work: Callable[[Any], str]) -> Future[str]:
        return self._threads.submit(work, None)


class Wanted:
    """Shows the behaviour for some texts, and keeps what was tested."""

    def __init__(self, *texts: str, slow: str = "") -> None:
        self.texts, self.slow = texts, slow
        self.tested: list[str] = []
        self._lock = threading.Lock()

    def refusal(self, candidate: object, text: str, workers: object) -> str:
        with self._lock:
            self.tested.append(text)
        if text == self.slow:
            time.sleep(0.2)
        if text == "broken":
            raise InfrastructureError("no process")
        return "" if text in self.texts else "right"


@contextmanager
def made_tester(
    behaviour: Wanted, log: Path, *, reduction: str = "one", late: bool = False
) -> Iterator[ParallelTester]:
    with ThreadPoolExecutor(2) as threads:
        yield ParallelTester(
            behaviour,
            Threads(threads),  # type: ignore[arg-type]
            log=log,
            reduction=reduction,
            until=time.monotonic() + (-1 if late else 60),
            accepted=lambda _: None,
            progress=Progress(),
            listener=ignore,
        )


def texts(*names: str) -> list[Lines]:
    return [Lines(name, f"make {name}") for name in names]


def test_the_first_in_their_order_wins_though_a_later_one_is_known_before(tmp_path: Path) -> None:
    behaviour = Wanted("b", "c", slow="b")
    with made_tester(behaviour, tmp_path / "log") as tester:
        found = tester.first_text(texts("a", "b", "c"))
    assert found is not None
    assert found.text == "b"


def test_each_is_tested_once_also_by_another_process(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with made_tester(Wanted("c"), log) as tester:
        assert tester.first_text(texts("a", "b", "a")) is None
        assert tester.first_text(texts("a", "b", "c")) is not None
    again = Wanted("c")
    with made_tester(again, log) as tester:
        found = tester.first_text(texts("a", "b", "c"))
    assert found is not None
    assert found.text == "c"
    assert again.tested == []


def test_a_line_that_a_killed_process_began_does_not_count(tmp_path: Path) -> None:
    log = tmp_path / "log"
    whole = json.dumps({"reduction": "one", "candidate": "1", "edit": "", "refusal": "right"})
    log.write_text(f"{whole}\n{whole[:20]}")
    assert read_tried(log, "one") == {"1": "right"}
    with made_tester(Wanted(), log) as tester:
        assert tester.first_text(texts("a")) is None
    assert len(read_tried(log, "one")) == 2


def test_a_log_keeps_what_other_reductions_have_tested(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for reduction, wanted in (("one", "a"), ("other", "b"), ("one", "a")):
        with made_tester(Wanted(wanted), log, reduction=reduction) as tester:
            found = tester.first_text(texts("a", "b"))
        assert found is not None
        assert found.text == wanted
    assert len(log.read_text().splitlines()) == sum(len(read_tried(log, each)) for each in ("one", "other"))


def test_nothing_begins_once_time_is_up(tmp_path: Path) -> None:
    behaviour = Wanted("a")
    with made_tester(behaviour, tmp_path / "log", late=True) as tester:
        assert tester.first_text(texts("a")) is None
        assert tester.stopped
    assert behaviour.tested == []


def test_what_is_known_is_found_though_time_is_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with made_tester(Wanted("b"), log) as tester:
        assert tester.first_text(texts("a", "b")) is not None
    with made_tester(Wanted("b"), log, late=True) as tester:
        found = tester.first_text(texts("a", "b"))
        assert tester.first_text(texts("c")) is None
        assert tester.stopped
    assert found is not None
    assert found.text == "b"


def test_a_failure_of_the_machine_ends_the_search(tmp_path: Path) -> None:
    with made_tester(Wanted(), tmp_path / "log") as tester, pytest.raises(InfrastructureError, match="no process"):
        tester.first_text(texts("a", "broken"))


def test_a_failure_of_the_machine_ahead_of_time_keeps_what_was_found(tmp_path: Path) -> None:
    with made_tester(Wanted("a", slow="a"), tmp_path / "log") as tester:
        found = tester.first_text(texts("a", "broken"))
    assert found is not None
    assert found.text == "a"
