"""The best pipelines: none in the set is beaten by another one of it, and each other one by the one that is named."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.names import TestId
from mlir_matrix.cost.best import CRITERIA, Row, better_in, contests, row_of
from mlir_matrix.cost.best_report import best_lines

# Few distinct values, so that rows are often equal in some criteria and near in others.
VALUES = st.sampled_from([0.0, 1.0, 1.05, 1.1, 1.21, 1.5, 2.0])
ROWS = st.lists(st.tuples(*[VALUES] * len(CRITERIA), st.floats(0, 0.3)), min_size=1, max_size=12)


def row(number: int, values: dict[str, float], **more: Any) -> Row:
    test = TestId("mlir", f"p{number}", "x86_64", "matmul")
    absent = {name: "it was not measured" for name in CRITERIA if name not in values}
    return Row(test=test, outcome=Outcome.PASS, reason="", values=values, absent=absent, **more)


@given(ROWS)
def test_the_set_is_what_none_of_it_beats(drawn: list[tuple[float, ...]]) -> None:
    rows = [row(at, dict(zip(CRITERIA, each, strict=False)), time_noise=each[-1]) for at, each in enumerate(drawn)]
    (contest,) = contests(rows)["contests"]
    by_name = {str(each.test): each for each in rows}
    noise = {**dict.fromkeys(CRITERIA, 0.0), **contest["noise"]}
    best = [by_name[each["test"]] for each in contest["best"]]
    assert best
    assert not any(better_in(one, other, noise) for one in best for other in best)
    for each in contest["beaten"]:
        assert by_name[each["by"]] in best
        assert better_in(by_name[each["by"]], by_name[each["test"]], noise) == each["better_in"]
    assert len(best) + len(contest["beaten"]) == len(rows)


def test_only_what_all_have_is_compared() -> None:
    rows = [row(1, {"code_bytes": 10.0, "error": 0.5}), row(2, {"code_bytes": 20.0, "instructions": 3.0, "error": 0.5})]
    (contest,) = contests(rows)["contests"]
    assert contest["criteria"] == ["code_bytes", "error"]
    assert contest["not_compared"]["instructions"] == "mlir/p1/x86_64/matmul: it was not measured"
    assert contest["beaten"][0]["by"] == "mlir/p1/x86_64/matmul"


def test_noise_is_no_reason() -> None:
    one, two = {"time_ns": 100.0, "code_bytes": 1.0}, {"time_ns": 101.0, "code_bytes": 1.0}
    assert len(contests([row(1, one), row(2, two)])["contests"][0]["best"]) == 2
    loud = [row(1, one, time_noise=0.2), row(2, {**two, "time_ns": 115.0})]
    assert len(contests(loud)["contests"][0]["best"]) == 2
    assert len(contests([row(1, one), row(2, {**two, "time_ns": 115.0})])["contests"][0]["best"]) == 1


def test_a_row_has_what_is_known() -> None:
    found = row_of(
        TestId("iree", "p", "t", "w"),
        Outcome.PASS,
        "",
        {"error_used": 0.25},
        {
            "exact": {"instructions": 5, "d1_misses": 1},
            "absent": {"code_bytes": "no object"},
            "operations": {},
            "compile": [
                {"action": "a", "cpu_s": 0.25, "peak_bytes": 1},
                {"action": "b", "cpu_s": 0.5, "peak_bytes": 1},
            ],
            "time": {"ns": 200.0, "low": 190.0, "high": 210.0, "samples": 11},
        },
    )
    assert found.values == {"time_ns": 200.0, "instructions": 5, "compile_s": 0.75, "error": 0.25}
    assert found.absent == {"code_bytes": "no object"}
    assert found.time_noise == 0.05


def test_the_text_says_why() -> None:
    rows = [
        row(1, {"time_ns": 312_400.0, "instructions": 1_593_187.0, "code_bytes": 2400.0}),
        row(2, {"time_ns": 600_000.0, "instructions": 5_219_967.0, "code_bytes": 1312.0}),
        row(3, {"time_ns": 700_000.0, "instructions": 6_000_000.0, "code_bytes": 1312.0}),
        row(4, {"time_ns": 900_000.0, "instructions": 7_000_000.0, "code_bytes": 3000.0}),
    ]
    failing = Row(
        test=TestId("jax", "p", "x86_64", "matmul"), outcome=Outcome.MISMATCH, reason="all wrong", values={}, absent={}
    )
    assert list(best_lines(contests([*rows, failing]))) == [
        "[bold]matmul[/] on x86_64",
        "  [bold]best[/]       [bold]time[/]  [bold]instructions[/]   [bold]code[/]  [bold]first in[/]",
        "  mlir/p1  312 µs     1,593,187  2,400  time, instructions",
        "  mlir/p2  600 µs     5,219,967  1,312  code",
        "  mlir/p3: mlir/p2 is better in time, instructions, worse in nothing",
        "  mlir/p4: mlir/p1 is better in all 3 criteria",
        "  jax/p/x86_64/matmul: [red]mismatch: all wrong[/]",
        "  [dim]not compared in compilation: mlir/p1/x86_64/matmul: it was not measured[/]",
        "  [dim]not compared in error: mlir/p1/x86_64/matmul: it was not measured[/]",
        "",
        "1 contest of 5 tests: 2 best, 1 failing",
    ]
