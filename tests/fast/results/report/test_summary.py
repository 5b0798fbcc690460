"""What a person is told at the end of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mlir_matrix.results.causes import causes_of
from mlir_matrix.results.report.summary import print_summary
from mlir_matrix.results.results import Run, TestResult


def result(workload: str, used: float | str, poisons: int = 2) -> TestResult:
    names = {"framework": "jax", "pipeline": "loops", "target": "x86_64", "workload": workload}
    return TestResult(
        id=f"jax/loops/x86_64/{workload}", **names, outcome="pass", stage="judge", expected=True, reason="",
        metrics={"error_used": used, "poisons": poisons},
    )  # fmt: skip


def told(run: Run, capsys: pytest.CaptureFixture[str], **options: Any) -> str:
    run.causes = causes_of(run.results)
    print_summary(run, {}, **options)
    return capsys.readouterr().out


def test_tests_that_only_just_pass_are_named_the_closest_first(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(
        results=[result(name, used) for name, used in (("a", 0.2), ("b", 0.8), ("c", 0.99), ("d", 0.76), ("e", 0.75))]
    )
    text = told(run, capsys)
    assert "close to failing\n  99 % of its bound is used by jax/loops/x86_64/c\n  80 % of its bound is used by" in text
    assert "… and 1 more" in text


def test_tests_under_one_poison_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(Run(results=[result("a", 0.2), result("b", 0.2, poisons=1)]), capsys)
    assert "run under one poison value only\n  jax/loops/x86_64/b\n" in text


def test_nothing_is_said_where_none_is_close(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(Run(results=[result("a", 0.5), result("b", 0.0)]), capsys)
    assert "close to failing" not in text
    assert "poison" not in text


def test_other_peoples_words_do_nothing_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """An action may have written its outcome itself."""
    words = "[/dev/eth0] \x1b[2Jall as expected"
    bad = replace(result("a", ""), outcome="run-failed", expected=False, reason=words, diagnostics=f"{words}\nmore")
    text = told(Run(results=[bad]), capsys)
    shown = r"[/dev/eth0] \x1b[2Jall as expected"
    assert f"  {shown}\n    {shown}\n    more\n" in text


def test_weak_passes_are_counted_and_the_first_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    weak = [replace(result(name, 0.1), weak={"y": ["all zeros", "the input [x]"]}) for name in "abcd"]
    text = told(Run(results=[*weak, result("e", 0.1)]), capsys)
    assert "4 tests pass but are weak: outputs that need no program would also pass\n" in text
    assert "  jax/loops/x86_64/a (y: all zeros and the input [x])\n" in text
    assert "… and 1 more" in text
    assert "weak" not in told(Run(results=[result("e", 0.1)]), capsys)


def test_many_cells_that_do_not_connect_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    idle = [
        replace(result("a", ""), target=f"t{number}", id=f"jax/loops/t{number}/a", outcome="unsupported")
        for number in range(21)
    ]
    text = told(Run(results=[result("a", 0.1), *idle]), capsys)
    assert "21 more cells" in text
    assert "jax/loops/t3 " not in text
    assert "jax/loops/t3 " in told(Run(results=[result("a", 0.1), *idle[1:]]), capsys)


def test_cells_that_only_compile_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    compiled = replace(result("a", 0.0), compile_only=True)
    text = told(Run(results=[compiled, replace(result("b", 0.1), target="gpu", id="jax/loops/gpu/b")]), capsys)
    assert "compiled and checked, not run" in text
    assert "2 tests: 2 pass (1 compiled only)" in text


def test_what_the_machine_lacks_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever number of tests it concerns; failures of the code under test are told one by one."""
    lacking = [
        replace(
            result(f"{reason[0]}{number}", ""), outcome="infra-error", expected=False, reason=reason, repeat="again"
        )
        for number in range(20)
        for reason in ("no network", "out of order")
    ]
    wrong = replace(result("w", ""), outcome="run-failed", expected=False, reason="no network")
    text = told(Run(results=[*lacking, wrong]), capsys)
    glob = "jax/loops/x86_64/{n0,n1,n10,… 17 more}"
    block = f"\nno network\n  tests:  20: {glob}\n  infra-error jax/loops/x86_64/n0\n  repeat: again\n"
    assert text.count(block) == 1
    assert text.count("\nout of order\n") == 1
    assert text.count("infra-error jax/") == 2
    assert "run-failed jax/loops/x86_64/w\n  no network\n" in text
    assert text.splitlines()[-1].startswith("41 not as expected, 3 causes; ")


def test_what_two_pipelines_share_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Below both tests, without repeating the reason, and with the command that helps in the end."""
    said = "error: failed to legalize operation 'a.b': %0 = \"a.b\"()\n  at a.mlir:3:5\nnote: n\n"
    failed = replace(
        result("a", ""), outcome="lower-failed", expected=False, reason="s: no pattern converts 'a.b'", diagnostics=said,
        repeat="again", next="ir",
    )  # fmt: skip
    other = replace(failed, id="jax/other/x86_64/a", pipeline="other")
    shown = "  s: no pattern converts 'a.b'\n    at a.mlir:3:5\n    note: n\n  repeat: again\n  next:   ir\n"
    text = told(Run(results=[failed, other]), capsys)
    assert f"\nlower-failed jax/loops/x86_64/a\nlower-failed jax/other/x86_64/a\n{shown}\n" in text
    by_program = replace(failed, diagnostics="a.mlir:3:5: error: no pattern converts 'a.b'\nnote: n\n")
    assert shown in told(Run(results=[by_program]), capsys)
    text = told(Run(results=[failed, replace(other, reason="s: no pattern converts 'c.d'")]), capsys)
    assert text.count("lower-failed jax/") == text.count("  repeat: again\n") == 2


def test_verbose_has_each_reason_within_a_cause_once(capsys: pytest.CaptureFixture[str]) -> None:
    step: Any = {"name": "s", "action": "s-1"}
    reasons = ("s: no pattern converts 'a.b'", "s: crashes at 1", "s: crashes at 2", "s: no pattern converts 'a.b'")
    failed = [
        replace(result(name, ""), outcome="lower-failed", expected=False, reason=reason, step=step)
        for name, reason in zip("abcd", reasons, strict=True)
    ]
    text = told(Run(results=failed), capsys, verbose=True)
    assert text.count("\n  also:   lower-failed jax/loops/x86_64/b: s: crashes at 1\n") == text.count("also:") == 1
    assert "also:" not in told(Run(results=failed), capsys)


def test_each_test_has_a_line_and_the_slowest_come_last(capsys: pytest.CaptureFixture[str]) -> None:
    """What came from the cache took no time, and what did not run has no line."""
    took = [replace(result(name, 0.1), duration_s=seconds) for name, seconds in (("a", 1.0), ("b", 3.25), ("c", 2.0))]
    others = [replace(result("d", 0.1), cached=True, duration_s=9.0), replace(result("e", ""), outcome="skipped")]
    print_summary(Run(results=[*took, *others]), {}, verbose=True, slowest=2)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["pass", "1.00", "s", "jax/loops/x86_64/a"],
        ["pass", "3.25", "s", "jax/loops/x86_64/b"],
        ["pass", "2.00", "s", "jax/loops/x86_64/c"],
        ["pass", "cached", "jax/loops/x86_64/d"],
    ]
    at = lines.index("slowest")
    assert [line.split()[-1] for line in lines[at + 1 : at + 3]] == ["jax/loops/x86_64/b", "jax/loops/x86_64/c"]
    assert lines[-1].startswith("all as expected; ")


def test_none_is_slowest_where_all_came_from_the_cache(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(results=[replace(result("a", 0.1), cached=True), replace(result("b", ""), outcome="skipped")])
    assert "\nslowest\n  none: all results came from the cache\n" in told(run, capsys, slowest=2)
    assert "slowest" not in told(run, capsys)
    assert "slowest" not in told(Run(results=run.results[1:]), capsys, slowest=2)


def test_what_a_pattern_matches_and_cannot_run_is_counted_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    left = [
        replace(result(name, ""), pipeline=name, outcome="unsupported", stage="", reason=f"no {name}")
        for name in "bcdf"
    ]
    run = Run(results=[result("a", 0.1), *left, replace(result("e", ""), outcome="skipped", stage="", reason="no GPU")])
    print_summary(run, {}, pattern=True)
    text = capsys.readouterr().out
    assert "4 more cells" in text
    assert "4 tests: 4 unsupported; each: --verbose" in text
    assert "not run\n  1 skipped: no GPU\n" in text
    assert "no b" not in text
    print_summary(run, {}, pattern=True, verbose=True)
    assert "1 unsupported: no b" in capsys.readouterr().out


def test_a_run_with_many_failures_fits_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever number of cells and causes; --verbose shows all."""
    passing = [replace(result("a", 0.1), id=f"jax/p{n}/x86_64/a", pipeline=f"p{n}") for n in range(100)]
    failing = [
        replace(
            each, id=f"{each.id}{n}", workload=f"a{n}", outcome="lower-failed", stage="lower", expected=False,
            reason=f"s{n}: {'x' * n}", diagnostics="\n".join("abcdefghij"), step={"name": f"s{n}", "action": ""}, repeat="again",
        )
        for each in passing
        for n in range(40)
    ]  # fmt: skip
    text = told(Run(results=[*passing, *failing]), capsys)
    lines = text.splitlines()
    assert len(lines) <= 80
    assert lines[0] == "100 of 100 cells have unexpected outcomes; each: --verbose"
    assert lines[2].startswith("s0: 100 of 100 tests that reach it fail there")
    assert "more causes; all in full: --verbose\n" in text
    assert "\n  … and " in text
    assert lines[-1].startswith("4000 not as expected, 40 causes; ")
    every = told(Run(results=[*passing, *failing]), capsys, verbose=True)
    assert every.count("\n  repeat: again\n") == 40
    assert len(told(Run(results=passing), capsys).splitlines()) <= 80
    one = told(Run(results=[*passing, failing[0]]), capsys)
    assert len(one.splitlines()) < 40
    assert "\njax/p0/x86_64     1  1 lower-failed, unexpected\n" in one
    assert "99 more cells" in one
