"""What tests computed, from plans and results."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.outputs import check_step, outputs_of, repeated, seconds, wrote_it
from mlir_matrix.bisect.signature import By
from mlir_matrix.execute.action_cache import Result
from mlir_matrix.execute.job import Done
from mlir_matrix.plan.graph import Graph, Produced
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.results.results import TestResult

TEST = "mlir/p/t/w"
TEXTS = {"import/mlir/w": "%0 = a.b", "bufferize": "%0 = c.d", "object": "\x7fELF", "run/w": "1 2 3"}


def planned() -> PlannedTests:
    """A test with the steps ``bufferize`` and ``object``."""
    graph, last, output = Graph(), "", ""
    stages = (Stage.IMPORT, Stage.LOWER, Stage.CODEGEN, Stage.RUN, Stage.JUDGE)
    files = {"import/mlir/w": ("ir", "i.mlir"), "bufferize": ("ir", "b.mlir"), "object": ("object", "k.o"),
             "run/w": ("out-y", "y.npy"), "judge/w": ("verdict", "v.json")}  # fmt: skip
    for stage, (label, (name, file)) in zip(stages, files.items(), strict=True):
        inputs = {"actual-y" if stage == Stage.JUDGE else "ir": Produced(last, output)} if last else {}
        last = graph.add(
            label,
            tool=label.partition("/")[0],
            stage=stage,
            environment="e",
            params={},
            inputs=inputs,
            outputs={name: file},
        )
        output = name
    return PlannedTests(tests=(), graph=graph, verdicts={TEST: last})


def finished(
    plan: PlannedTests, texts: Mapping[str, str] = TEXTS, **metrics: object
) -> tuple[dict[str, Done], dict[str, bytes]]:
    """The results of a plan whose actions wrote these texts, and the blobs."""
    done, blobs = {}, {}
    for identifier, action in plan.graph.actions.items():
        text = texts.get(identifier.rpartition("-")[0])
        if text is None:
            continue
        digest = hashlib.sha256(text.encode()).hexdigest()
        blobs[digest] = text.encode()
        result = Result(
            outcome={"outcome": "ok"},
            outputs=dict.fromkeys(action.outputs, digest),
            usage={"wall_s": 0.5},
            metrics=metrics,
        )
        done[identifier] = Done(result=result, cached=False)
    return done, blobs


def digests(by: str, texts: Mapping[str, str] = TEXTS) -> dict[str, str]:
    plan = planned()
    done, blobs = finished(plan, texts)
    return outputs_of(plan, done, TEST, By.parse(by), blobs.__getitem__)


@pytest.mark.parametrize("by", ["ir:bufferize", "ir:1"])
def test_ir_after_a_step(by: str) -> None:
    found = digests(by)
    assert list(found) == ["ir after bufferize"]
    assert digests(by, {**TEXTS, "bufferize": "%x  =  c.d"}) == found, "names and spaces"
    assert digests(by, {**TEXTS, "bufferize": "%0 = c.e"}) != found
    assert digests(by, {**TEXTS, "object": "other"}) == found
    assert digests(by, {}) == {}


def test_objects_by_their_bytes() -> None:
    assert digests("ir:object") == digests("ir:2")
    assert digests("ir:object") != digests("ir:object", {**TEXTS, "object": "\x7fELF "})


def test_outputs_by_their_bytes() -> None:
    assert list(digests("output")) == ["actual-y"]
    assert digests("output") == digests("output", {**TEXTS, "object": "other"})
    assert digests("output") != digests("output", {**TEXTS, "run/w": "1 2 4"})
    assert digests("outcome") == {}


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("ir:bufferise", "--by ir:bufferise: there is no step 'bufferise'; did you mean 'bufferize'?"),
        ("ir:0", "--by ir:0: the steps are 1 bufferize, 2 object"),
        ("ir:3", "--by ir:3: the steps are 1 bufferize, 2 object"),
    ],
)
def test_unknown_steps(by: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_step(planned(), By.parse(by))
    assert words in str(caught.value)


def test_known_steps() -> None:
    for by in ("ir:object", "ir:2", "outcome"):
        check_step(planned(), By.parse(by))


@pytest.mark.parametrize(("step", "expected"), [("import/mlir/w", False), ("bufferize", True), ("", False)])
def test_which_step_reads_what_its_environment_wrote(step: str, expected: bool) -> None:
    plan = planned()
    action = next((name for name in plan.graph.actions if name.startswith(step or "none")), "")
    names = {"framework": "mlir", "pipeline": "p", "target": "t", "workload": "w"}
    decided: Any = {"name": step, "action": action} if step else None
    result = TestResult(
        id=TEST, **names, outcome=Outcome.LOWER_FAILED, stage=Stage.LOWER, expected=True, reason="", step=decided
    )
    assert wrote_it(plan, result) is expected
    # The importer of another component wrote it.
    first = next(iter(plan.graph.actions))
    actions = {**plan.graph.actions, first: replace(plan.graph.actions[first], environment="torch")}
    assert wrote_it(replace(plan, graph=Graph(actions)), result) is False


def test_times_of_calls_or_of_the_run() -> None:
    plan = planned()
    assert seconds(plan, finished(plan)[0], TEST) == [0.5]
    assert seconds(plan, finished(plan, kernel_ns=[2000, 3000])[0], TEST) == pytest.approx([2e-6, 3e-6])
    assert seconds(plan, {}, TEST) == []
    # What code under test writes instead.
    for written in (None, 7, "2000", {"2000": 1}, ["2000", None, [1]]):
        assert seconds(plan, finished(plan, kernel_ns=written)[0], TEST) == [0.5]


def test_a_plan_that_calls_kernels_several_times() -> None:
    plan = planned()
    more = repeated(plan, 9)
    params = {name.partition("-")[0]: action.params for name, action in more.graph.actions.items()}
    assert params["run/w"] == {"repeat": 9}
    assert params["object"] == {}
    assert more.verdicts == plan.verdicts
    digests = [{each.params_digest for each in one.graph.actions.values()} for one in (plan, more)]
    assert len(digests[1]) == len(digests[0]) + 1, "another key"
