"""Plans of tests that run anew."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.base.events import Event
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import Result
from mlir_matrix.execute.job import Done
from mlir_matrix.expand.costs import with_costs
from mlir_matrix.plan.graph import BUILDING, Produced
from mlir_matrix.plan.session import plan_tests, select_tests
from mlir_matrix.results.repeats import COPY, Made, fold, folding, note_outputs, unstable, with_repeats
from mlir_matrix.results.results import TestDone, TestResult


def test_copies_share_nothing_but_what_is_built_once(current: Session) -> None:
    tests = select_tests(current, ["mlir/linalg-loops/x86_64/dot", "mlir/linalg-loops/x86_64/exp"])
    plan = plan_tests(current, tests)
    dot, exp = (test.id for test in plan.tests)
    made = with_repeats(plan, {dot}, {dot: 1, exp: 2})
    assert [test.id for test in made.tests] == [dot, f"{dot}#0", f"{exp}#0", f"{exp}#1"]
    needed = {test: made.graph.needed_by(last) for test, last in made.verdicts.items()}
    assert needed[dot] == plan.graph.needed_by(plan.verdicts[dot])
    for test, names in needed.items():
        actions = [made.graph.actions[name] for name in names]
        copies = [action for action in actions if action.tool not in BUILDING]
        assert len(actions) > len(copies) > 4
        assert all(action.id.endswith(test[-2:]) for action in copies) == (test != dot)
        # Whatever it reads is made by a copy of the same number, or once for all.
        for action in copies:
            assert set(action.sources) <= set(names)
            assert {ref.action for ref in action.inputs.values() if isinstance(ref, Produced)} <= set(action.sources)
    keys = [(action.tool, action.params_digest) for action in made.graph.actions.values() if "#" in action.id]
    originals = {action.params_digest for action in plan.graph.actions.values()}
    assert originals.isdisjoint(digest for _, digest in keys)


@pytest.mark.parametrize(
    ("changing", "steps"),
    [
        ("", []),
        # What reads changed bytes may give others; what runs a kernel may round differently each time.
        ("import/mlir/dot", ["import/mlir/dot"]),
        ("bufferize", ["bufferize"]),
        ("run/dot", []),
    ],
)
def test_steps_whose_bytes_change(current: Session, changing: str, steps: list[str]) -> None:
    plan = plan_tests(current, select_tests(current, ["mlir/linalg-loops/x86_64/dot"]))
    test = plan.tests[0].id
    made = with_repeats(plan, (), {test: 2})
    done, odd = dict[str, Done](), set[str]()
    for name, action in made.graph.actions.items():
        if (changing and name.startswith(f"{changing}-")) or odd.intersection(action.sources):
            odd.add(name)
        bytes_of = {output: f"{output}{name[-1] if name in odd else ''}" for output in action.outputs}
        done[name] = Done(result=Result(outcome={"outcome": "ok"}, outputs=bytes_of), cached=False)
    seen: Made = {}
    # Bisections repeat a test in another run.
    for number in ("#0", "#1"):
        note_outputs(
            seen, made, {name: each for name, each in done.items() if COPY not in name or name.endswith(number)}
        )
    assert unstable(made, seen) == ({test: steps} if steps else {})


def test_another_run_has_other_copies(current: Session) -> None:
    plan = plan_tests(current, select_tests(current, ["mlir/linalg-loops/x86_64/dot"]))
    (test,) = plan.tests
    digests = [
        {
            action.params_digest
            for action in with_repeats(plan, (), {test.id: 1}).graph.actions.values()
            if "#" in action.id
        }
        for _ in range(2)
    ]
    assert digests[0].isdisjoint(digests[1])


def test_what_comes_before_a_stage_is_shared(current: Session) -> None:
    plan = plan_tests(current, select_tests(current, ["mlir/linalg-loops/x86_64/dot"]))
    (test,) = plan.tests
    made = with_repeats(plan, (), {test.id: 2}, stages=[Stage.RUN])
    new = [action for action in made.graph.actions.values() if COPY in action.id]
    assert {action.stage for action in new} == {Stage.RUN, Stage.JUDGE}
    for action in new:
        original = plan.graph.actions[action.id.partition(COPY)[0]]
        # Equal outputs are judged once.
        assert (action.params_digest == original.params_digest) is (action.stage == Stage.JUDGE)
    shared = made.graph.actions.keys() & plan.graph.actions.keys()
    assert {plan.graph.actions[name].stage for name in shared} >= {Stage.IMPORT, Stage.LOWER, Stage.CODEGEN}


def result(outcome: str, number: int, expected: bool) -> TestResult:
    return TestResult(
        id=f"f/p/t/w#{number}", framework="f", pipeline="p", target="t", workload="w", outcome=Outcome(outcome),
        stage="run", expected=expected, reason="because" if outcome != "pass" else "", duration_s=number,
    )  # fmt: skip


@given(st.lists(st.sampled_from(["pass", "mismatch", "crashed", "infra-error", "skipped"]), min_size=1))
def test_copies_are_folded(outcomes: list[str]) -> None:
    copies = [result(outcome, number, outcome in ("pass", "skipped")) for number, outcome in enumerate(outcomes)]
    (folded,) = fold(copies)
    ran = [outcome for outcome in outcomes if outcome != "skipped"]
    told = [outcome for outcome in ran if outcome != "infra-error"]
    wrong = [outcome for outcome in told if outcome != "pass"] + ["infra-error"] * ran.count("infra-error")
    assert folded.id == "f/p/t/w"
    assert folded.outcome == (wrong or ["skipped" if len(ran) < len(outcomes) else "pass"])[0]
    assert folded.expected == (not wrong)
    assert folded.reason.startswith("flaky: ") == (len(set(told)) > 1)
    if folded.outcome == "skipped":
        assert folded.reason == ("because" if not ran else f"because after {len(ran)} of {len(outcomes)} runs")
    elif len(ran) > 1:
        assert sum(folded.repeats.values()) == len(ran)
    # The listener says the same, once.
    told: list[Event] = []
    listen = folding(told.append, len(copies))
    for copy in copies:
        listen(TestDone(copy))
    assert told == [TestDone(folded)]


def test_each_copy_has_costs_of_its_own(current: Session) -> None:
    test = "mlir/linalg-loops/x86_64-v3/dot"
    plan = plan_tests(current, with_costs(select_tests(current, [test])))
    made = with_repeats(plan, {test}, {test: 2})
    assert made.costs.keys() == {test, f"{test}#0", f"{test}#1"}
    assert made.costs[test] == plan.costs[test]
    for name in (f"{test}#0", f"{test}#1"):
        assert made.verdicts[name] in made.graph.needed_by(made.costs[name].action)
        assert set(made.costs[name].compiled_by) <= made.graph.actions.keys()
