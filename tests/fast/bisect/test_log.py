"""Logs of bisections: what is written is read again, whatever was killed in between."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.bisect.log import Log, read_log
from mlir_matrix.bisect.observations import Observation
from mlir_matrix.bisect.releases import Axis
from mlir_matrix.bisect.signature import By
from mlir_matrix.results.results import TestResult
from mlir_matrix.results.signature import PASS, Signature

AXIS = Axis(component="llvm", names=("17.0.6", "18.1.8", "19.1.7"))


def seen(point: int, outcome: str = "pass", limit: float = 60) -> Observation:
    result = TestResult(
        id=f"t@llvm={AXIS.names[point]}", framework="f", pipeline="p", target="t", workload="w",
        outcome=Outcome(outcome), stage="run", expected=True, reason="because", pins={"llvm": "1"}, diagnostics="é\n",
    )  # fmt: skip
    signature = None if outcome == "infra-error" else Signature(outcome=Outcome(outcome), details=("a", "b"))
    return Observation(test="t", point=point, signature=signature, result=result, limit_s=limit)


def sealed(event: dict[str, Any]) -> str:
    """The line of an event, with its digest."""
    text = json.dumps(event)
    return f'{text[:-1]}, "digest": "{digest_bytes(text.encode())[:16]}"}}\n'


@pytest.fixture
def log(tmp_path: Path) -> Log:
    made = Log(tmp_path / "log.ndjson", AXIS.names)
    made.begin(["t", "--good", "17"], "llvm", ["t"])
    return made


def test_what_is_written_is_read_again(log: Log) -> None:
    observations = [seen(0), seen(2, "mismatch"), seen(2, "timed-out")]
    for each in (*observations, seen(1, "infra-error")):
        log.observed(each, By())
    past = read_log(log.path)
    assert past.arguments == ["t", "--good", "17"]
    assert past.folder == os.getcwd()
    assert past.observations(AXIS, ["t"], 60, By()) == observations, "what the machine failed at is tried again"


def test_another_criterion(log: Log) -> None:
    """Behaviours are made of the results anew; what a result does not tell is probed again; a person's word stays."""
    log.observed(seen(0, "mismatch"), By())
    log.observed(replace(seen(1), signature=PASS, judged=True), By())
    past = read_log(log.path)
    found = past.observations(AXIS, ["t"], 60, By("outcome"))
    assert [each.signature for each in found] == [Signature(outcome=Outcome.MISMATCH), PASS]
    assert [each.point for each in past.observations(AXIS, ["t"], 60, By("output"))] == [1]


def test_another_criterion_asks_again_what_no_release_read(log: Log) -> None:
    """Only the plan tells whether the release that cannot read the IR wrote it."""
    unread = seen(0, "lower-failed")
    result = replace(unread.result, reason="bufferize: the IR does not parse: expected ':'")
    log.observed(replace(unread, result=result, signature=Signature(outcome=Outcome.LOWER_FAILED)), By("outcome"))
    past = read_log(log.path)
    assert len(past.observations(AXIS, ["t"], 60, By("outcome"))) == 1
    assert past.observations(AXIS, ["t"], 60, By()) == []


def test_the_last_start_counts(log: Log) -> None:
    log.observed(seen(0), By())
    log.begin(["t", "--by", "outcome"], "llvm", ["t"])
    past = read_log(log.path)
    assert (past.arguments, len(past.observed)) == (["t", "--by", "outcome"], 1)
    assert replace(past, undo=True).observations(AXIS, ["t"], 60, By()) == []


def test_a_time_out_counts_up_to_its_limit(log: Log) -> None:
    log.observed(seen(0, "timed-out", limit=10), By())
    past = read_log(log.path)
    assert len(past.observations(AXIS, ["t"], 5, By())) == 1
    assert past.observations(AXIS, ["t"], 11, By()) == []


def test_what_is_not_on_the_axis_is_left_out(log: Log) -> None:
    for point in range(3):
        log.observed(seen(point), By())
    past = read_log(log.path)
    assert [each.point for each in past.observations(Axis(component="llvm", names=AXIS.names[1:]), ["t"], 1, By())] == [
        0,
        1,
    ]
    assert past.observations(AXIS, ["other"], 1, By()) == []


def test_undone_skipped_and_judged(log: Log) -> None:
    log.observed(seen(0, "mismatch"), By())
    log.observed(seen(1), By())
    log.undone()
    log.skipped(["18.1.8"])
    judged = Observation(test="t", point=0, signature=PASS, result=seen(0).result, limit_s=60, judged=True)
    log.judged(judged, 0)
    past = read_log(log.path)
    assert past.skipped == {"18.1.8"}
    (found,) = past.observations(AXIS, ["t"], 60, By())
    assert (found.point, found.signature, found.judged) == (0, PASS, True)
    log.undone()
    log.undone()
    assert read_log(log.path).observations(AXIS, ["t"], 60, By()) == []


def test_a_log_is_whole_after_a_kill_at_any_byte(log: Log) -> None:
    observations = [seen(0), seen(2, "mismatch")]
    begin = log.path.stat().st_size
    for each in observations:
        log.observed(each, By())
    whole = log.path.read_bytes()
    for size in range(begin, len(whole) + 1, 7):
        log.path.write_bytes(whole[:size])
        complete = whole[:size].count(b"\n") - 1
        assert read_log(log.path).observations(AXIS, ["t"], 60, By()) == observations[:complete]
        # What is written next begins a line of its own.
        log.observed(seen(1), By())
        assert read_log(log.path).observations(AXIS, ["t"], 60, By()) == [*observations[:complete], seen(1)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "does not begin with the event begin"),
        ("no json\n", ":1: the digest of this line of a bisection's log differs"),
        ('{"event": "begin", "schema": "mlir-matrix/bisect-log/v1"}\n', "an older release wrote it"),
        (sealed({"event": "observed"}), ":1: not an event of a bisection: .*expected the event begin"),
        (sealed({"event": "begin", "schema": "x"}), ":1: not an event of a bisection"),
        (
            sealed({"event": "begin", "schema": "mlir-matrix/bisect-log/v1", "arguments": ["mlir/*", "--good", "17"]}),
            r"an older version .* distinguished behaviours differently; begin anew: tools/matrix bisect 'mlir/\*' --good 17$",
        ),
    ],
)
def test_what_is_no_log(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "x"
    file.write_text(text)
    with pytest.raises(UsageError, match=reason):
        read_log(file)


def test_a_damaged_event(log: Log) -> None:
    log.observed(seen(0), By())
    begin, line = log.path.read_text().splitlines()
    event = json.loads(line)
    event["result"]["outcome"] = "nonsense"
    del event["digest"]
    log.path.write_text(f"{begin}\n{sealed(event)}")
    with pytest.raises(UsageError, match=r":2: not an event of a bisection: .*nonsense"):
        read_log(log.path)


def test_a_damaged_byte_never_changes_an_answer_silently(log: Log) -> None:
    """Each byte of a log, with one bit flipped."""
    log.observed(seen(0), By())
    log.skipped(["18.1.8"])
    log.undone()
    whole = log.path.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        log.path.write_bytes(damaged)
        with pytest.raises(UsageError, match=r":\d: the digest of this line"):
            read_log(log.path)


def test_a_log_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_log(tmp_path / "none")
    with pytest.raises(InfrastructureError, match="cannot be written"):
        Log(tmp_path / "none" / "log", AXIS.names).undone()
