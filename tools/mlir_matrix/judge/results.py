"""Results: one outcome per test, whether it is the expected one, and what a program or a person wants to know of it."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from mlir_matrix.actions.runtime.collect import is_measurable
from mlir_matrix.digest import digest_bytes
from mlir_matrix.execute.action_cache import LostBlob
from mlir_matrix.execute.job import BUILDING, Done
from mlir_matrix.expand.expansion import Test
from mlir_matrix.names import OF
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.parameters import found_place
from mlir_matrix.text import catalog_options

SCHEMA = "mlir-matrix/results/v1"
#: What a run reports about tests that it did not have to run.
NOT_RUN = frozenset({"unsupported", "skipped"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """The outcome of one test."""

    #: For pytest, which would take the name for one of its own.
    __test__: ClassVar[bool] = False

    id: str
    framework: str
    pipeline: str
    target: str
    workload: str
    outcome: str
    #: The stage that decided it; empty where nothing ran.
    stage: str
    #: True where the outcome is what the suite expects.
    expected: bool
    reason: str
    duration_s: float = 0.0
    cached: bool = False
    pins: Mapping[str, str] = field(default_factory=dict)
    environments: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    #: What the suite expected instead of a pass, why, and where it says so.
    expectation: Mapping[str, str] | None = None
    #: The judge's findings, output by output; diagnostics and log of a failure.
    verdict: Mapping[str, Any] | None = None
    diagnostics: str = ""
    log: str = ""
    #: The name of the property that the test is of; empty where it is of none.
    relation: str = ""
    #: Of a pass: by output, the trivial outputs that would pass, too, but for those of which the workload says why that is right.
    weak: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def cell(self) -> str:
        """The identifier of its cell, with the pins that the suite varies."""
        _, mark, pins = self.id.partition("@")
        return f"{self.framework}/{self.pipeline}/{self.target}{mark}{pins}"

    @property
    def called(self) -> str:
        """The workload, with the property where the test is of one: ``matmul~scaling``."""
        return f"{self.workload}{OF}{self.relation}" if self.relation else self.workload

    def to_json(self) -> dict[str, Any]:
        """The entry of this test in the results document."""
        entry: dict[str, Any] = {
            "id": self.id,
            "framework": self.framework,
            "pipeline": self.pipeline,
            "target": self.target,
            "workload": self.workload,
            **({"property": self.relation} if self.relation else {}),
            "outcome": self.outcome,
            "stage": self.stage,
            "expected": self.expected,
            "reason": self.reason,
            "duration_s": round(self.duration_s, 4),
            "cached": self.cached,
            "pins": dict(self.pins),
            "environments": dict(self.environments),
            "metrics": dict(self.metrics),
        }
        if self.expectation is not None:
            entry["expectation"] = dict(self.expectation)
        if self.weak:
            entry["weak"] = {name: list(passes) for name, passes in self.weak.items()}
        if self.outcome != "pass" and self.verdict is not None:
            entry["verdict"] = dict(self.verdict)
        if self.diagnostics:
            entry["diagnostics"] = self.diagnostics
        return entry


#: What the judge advises where a golden is missing. It does not know the catalogs.
_REMEDY = "matrix golden update --write"
_ONE_POISON = "; its kernel ran under one poison value only: it took over 5 s of CPU time, or its target has no fork"


@dataclass(frozen=True, slots=True)
class _Chain:
    """What the actions up to and including one cost, and where they came from."""

    duration_s: float
    cached: bool
    environments: frozenset[str]
    #: The fewest poison values that a kernel ran under; 0 where none ran.
    poisons: int = 0


class ResultMaker:
    """Turns actions that are done into results of tests."""

    def __init__(
        self,
        graph: Graph,
        *,
        pins: Mapping[str, Mapping[str, str]],
        digests: Mapping[str, str],
        read_blob: Callable[[str], bytes],
        roots: Sequence[Path] = (),
    ) -> None:
        """``pins`` gives component releases by environment; ``digests`` the environments' own; ``roots`` are the catalogs."""
        self._graph = graph
        self._pins = pins
        self._digests = digests
        self._read_blob = read_blob
        self._roots = roots
        self._remedy = shlex.join([*_REMEDY.split(), *catalog_options(roots[1:])])
        self._chains: dict[str, _Chain] = {}
        self._alone: dict[str, frozenset[str]] = {}
        #: By digest: many tests come to the same one.
        self._verdicts: dict[str, dict[str, Any]] = {}
        self._facts: dict[frozenset[str], tuple[dict[str, str], dict[str, str]]] = {}

    def note(self, action: str, done: Done) -> None:
        """Remember what an action cost. Every action must be noted after those that it waits for."""
        spec = self._graph.actions[action]
        # What is made once for a target is no test's time.
        duration = 0.0 if spec.tool in BUILDING else done.result.usage.get("wall_s", 0.0)
        cached = done.cached
        environments = self._alone.setdefault(spec.environment, frozenset({spec.environment}))
        poisons = [found] if isinstance(found := done.result.metrics.get("poisons"), int) else []
        for source in spec.sources:
            before = self._chains[source]
            duration += before.duration_s
            cached = cached and before.cached
            poisons += [before.poisons] if before.poisons else []
            if environments <= before.environments:
                environments = before.environments
            else:
                environments |= before.environments
        self._chains[action] = _Chain(duration, cached, environments, min(poisons, default=0))

    def not_run(self, test: Test, outcome: str, reason: str) -> TestResult:
        """The result of a test that was decided before anything ran, or that the run did not come to."""
        return TestResult(**_names(test), outcome=outcome, stage="", expected=True, reason=reason)

    def finished(self, test: Test, action: str, done: Done) -> TestResult:
        """The result of a test whose last action is done."""
        outcome: Mapping[str, Any] = done.result.outcome
        verdict: dict[str, Any] | None = None
        metrics: dict[str, Any] = {}
        if done.result.ok and "verdict" not in done.result.outputs:
            # A check that has only one way to succeed, like FileCheck, has nothing to say when it does.
            outcome = {"outcome": "pass", "stage": "judge", "reason": ""}
        elif done.result.ok:
            try:
                verdict = self._verdict(done.result.outputs["verdict"])
            except LostBlob:
                # Whoever executes can have it made again.
                raise
            except OSError as error:
                outcome = {"outcome": "infra-error", "stage": "judge", "reason": f"the cached verdict is lost: {error}"}
            else:
                if test.weak_fails and weak_outputs(verdict):
                    verdict = _refused(verdict, test.weak_fails)
                outcome = {"outcome": verdict["outcome"], "stage": "judge", "reason": verdict["reason"]}
                outcome["diagnostics"] = verdict.get("diagnostics", "")
                metrics = dict(verdict.get("metrics", {}))
        chain = self._chains[action]
        if chain.poisons:
            metrics["poisons"] = chain.poisons
        pins, environments = self._environment_facts(chain.environments)
        expected, expectation = _compare(test, outcome["outcome"])
        # An expected mismatch must not hide that there was nothing to compare with.
        expected = expected and (verdict is None or is_measurable(verdict)) and not self._lacks_golden(action, done)
        return TestResult(
            **_names(test),
            outcome=outcome["outcome"],
            stage=outcome["stage"],
            expected=expected,
            reason=outcome.get("reason", "") + (_ONE_POISON if chain.poisons == 1 else ""),
            duration_s=chain.duration_s,
            cached=chain.cached,
            pins=pins,
            environments=environments,
            metrics=metrics,
            expectation=expectation,
            verdict=verdict,
            diagnostics=outcome.get("diagnostics", ""),
            log=str(done.result.metrics.get("log", "")) if not done.result.ok else "",
            weak=weak_outputs(verdict) if verdict else {},
        )

    def _lacks_golden(self, action: str, done: Done) -> bool:
        """Return whether what a judge was to compare with could not be computed: no program under test failed then."""
        failed = not done.result.ok and done.result.outcome["stage"] == "judge"
        return failed and self._graph.actions[action].tool == "judge"

    def _verdict(self, digest: str) -> dict[str, Any]:
        if digest not in self._verdicts:
            verdict = json.loads(self._read_blob(digest))
            for part in (verdict, *verdict["outputs"]):
                for key in {"reason", "layer"} & part.keys():
                    part[key] = found_place(self._roots, part[key]).replace(_REMEDY, self._remedy)
            self._verdicts[digest] = verdict
        return self._verdicts[digest]

    def _environment_facts(self, names: frozenset[str]) -> tuple[dict[str, str], dict[str, str]]:
        if names not in self._facts:
            releases: dict[str, dict[str, None]] = {}
            for name in sorted(names):
                for component, release in self._pins.get(name, {}).items():
                    releases.setdefault(component, {})[release] = None
            # Steps of a test may have the same component of several releases: none of them is hidden.
            pins = {component: ", ".join(found) for component, found in releases.items()}
            self._facts[names] = (pins, {name: self._digests[name] for name in sorted(names) if name in self._digests})
        return self._facts[names]


def weak_outputs(verdict: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return, by output, the trivial outputs that would pass, too, but for those of which the workload says why that is right."""
    outputs = verdict["outputs"] if verdict["outcome"] == "pass" else ()
    return {each["name"]: each["weak"] for each in outputs if "weak" in each and "weak_reason" not in each}


def weak_words(weak: Mapping[str, Sequence[str]]) -> str:
    """Return them as words."""
    return "; ".join(f"{name}: {' and '.join(passes)}" for name, passes in weak.items())


def _refused(verdict: Mapping[str, Any], position: str) -> dict[str, Any]:
    """The verdict on a weak pass where a suite refuses it: its golden and bounds tell nothing, which nobody can expect."""
    weak = weak_outputs(verdict)
    reason = (
        f"weak: what takes no program would pass, too ({weak_words(weak)}), and {position} refuses that; "
        "change inputs or tolerance, or state a reason by 'weak' at the workload's output"
    )
    wrong = {"outcome": "mismatch", "measurable": False, "reason": reason}
    outputs = [{**each, **wrong} if each["name"] in weak else each for each in verdict["outputs"]]
    return {**verdict, "outcome": "mismatch", "reason": reason, "outputs": outputs}


def _names(test: Test) -> dict[str, Any]:
    return {
        "id": test.id,
        "framework": test.framework,
        "pipeline": test.pipeline,
        "target": test.target,
        "workload": test.workload,
        "relation": test.relation.name if test.relation else "",
    }


def _compare(test: Test, outcome: str) -> tuple[bool, dict[str, str] | None]:
    """Whether the outcome is the expected one. Strict: an expected failure that passes is not as expected."""
    rule = test.expectation
    if rule is None:
        return outcome == "pass" or outcome in NOT_RUN, None
    expectation = {"outcome": rule.outcome, "reason": rule.reason, "position": rule.position}
    if rule.link:
        expectation["link"] = rule.link
    return outcome == rule.outcome or outcome in NOT_RUN, expectation


def outcomes_digest(results: Iterable[TestResult]) -> str:
    """SHA-256 over the identifiers and outcomes of tests, in the order of the identifiers: what a set of pins came to."""
    lines = sorted(f"{result.id} {result.outcome}\n" for result in results)
    return digest_bytes("".join(lines).encode())


def summarise(results: Sequence[TestResult]) -> dict[str, Any]:
    """Totals: how many, how many as expected, how many of each outcome, how many from the cache; their digest."""
    counts = Counter(result.outcome for result in results)
    return {
        "total": len(results),
        "as_expected": sum(result.expected for result in results),
        "by_outcome": dict(sorted(counts.items())),
        "cached": sum(result.cached for result in results),
        "outcomes": outcomes_digest(results),
    }


def to_document(
    results: Sequence[TestResult], *, interrupted: bool = False, executed_actions: Sequence[str] = ()
) -> dict[str, Any]:
    """The results document; ``executed_actions`` are those that the cache did not have."""
    return {
        "schema": SCHEMA,
        "tests": [result.to_json() for result in results],
        "summary": summarise(results),
        "interrupted": interrupted,
        "executed": len(executed_actions),
        "executed_actions": sorted(executed_actions),
    }


def exit_code(results: Iterable[TestResult]) -> int:
    """0: all as expected; 1: something under test is not; 3: nothing under test failed, but the infrastructure did."""
    wrong = [result for result in results if not result.expected]
    if any(result.outcome != "infra-error" for result in wrong):
        return 1
    return 3 if wrong else 0
