"""Find conflicts: pairs of IR tests of which exactly one passes with any change.

There are two kinds of evidence. *By input*: two tests give the same IR to steps between the same kinds, and each output
satisfies exactly one of the two. *By releases*: under each of several releases exactly one of two tests passes, and not always
the same one; their steps lead between the same kinds, or have a pass in common. In both cases, no change can make both tests pass.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.names import IR_TARGET, TestId
from mlir_matrix.catalog.catalog import DEFAULT_SUITE, Catalog
from mlir_matrix.catalog.models.base import Step
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.recipes import Unsupported, resolve_step
from mlir_matrix.expand.select import choose
from mlir_matrix.expand.tolerances import ToleranceResolver
from mlir_matrix.plan.planner import Planner
from mlir_matrix.plan.request import Limits
from mlir_matrix.results.reproducer import pass_names
from mlir_matrix.results.results import SCHEMA as RESULTS

if TYPE_CHECKING:
    from mlir_matrix.expectations.documents import ConflictPair, Conflicts, KnownConflict, RepeatedPair, StaleConflict

#: Outcomes that say nothing about the code under test.
_UNKNOWN = frozenset({Outcome.SKIPPED, Outcome.TIMED_OUT, Outcome.INFRA_ERROR, Outcome.UNSUPPORTED})
#: Whether an output satisfies directives, by the test that made the output and the test that has the directives.
Held = Mapping[tuple[str, str], bool]


@dataclass(frozen=True)
class Seen:
    """The observations under one set of pins, or in one document of results."""

    passed: Mapping[str, bool]
    #: By test: the digest of its IR, if the IR could be read.
    inputs: Mapping[str, str] = field(default_factory=dict)
    held: Held = field(default_factory=dict)
    #: By test: the passes of its step under these releases.
    passes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: The releases of the components, where tests have one.
    releases: Mapping[str, str] = field(default_factory=dict)


def candidates(steps: Mapping[str, Step]) -> list[tuple[str, str]]:
    """Return the pairs of tests whose steps lead from a kind to a kind in common; ``steps`` has the step of each test."""
    routes = {test: set(step.kinds().items()) for test, step in steps.items()}
    return [pair for pair in combinations(sorted(steps), 2) if not routes[pair[0]].isdisjoint(routes[pair[1]])]


def in_common(pair: tuple[str, str], seen: Mapping[str, Seen]) -> list[str]:
    """Return the passes that the steps of both tests have; none unless they share one wherever both were observed."""
    shared = [
        each.passes.get(pair[0], frozenset()) & each.passes.get(pair[1], frozenset())
        for each in seen.values()
        if pair[0] in each.passed and pair[1] in each.passed
    ]
    return sorted(frozenset().union(*shared)) if shared and all(shared) else []


def sharing(seen: Mapping[str, Seen]) -> list[tuple[str, str]]:
    """Return the pairs of tests that alternate, and whose steps have a pass in common."""
    by_pass: dict[str, set[str]] = defaultdict(set)
    for each in seen.values():
        for test, passes in each.passes.items():
            for name in passes:
                by_pass[name].add(test)
    pairs = {pair for tests in by_pass.values() for pair in combinations(sorted(tests), 2)}
    observed = [each.passed for each in seen.values()]
    return sorted(pair for pair in pairs if alternate(pair, observed) and in_common(pair, seen))


def by_input(pairs: Iterable[tuple[str, str]], inputs: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the pairs with the same IR; ``inputs`` has the digest of each IR that could be read."""
    return [pair for pair in pairs if pair[0] in inputs and inputs[pair[0]] == inputs.get(pair[1])]


def contradict(pair: tuple[str, str], held: Held) -> bool:
    """Return whether each output of the pair's input satisfies exactly one of the two; False without any output."""
    seen = [maker for maker in pair if (maker, pair[0]) in held and (maker, pair[1]) in held]
    return bool(seen) and all(held[maker, pair[0]] != held[maker, pair[1]] for maker in seen)


def repeat(pair: tuple[str, str], held: Held) -> bool:
    """Return whether two tests of one step could be one test, because each output satisfies both."""
    same_step = len({TestId.parse(test).pipeline for test in pair}) == 1
    return same_step and all(held.get((maker, test), False) for maker in pair for test in pair)


def alternate(pair: tuple[str, str], observed: Sequence[Mapping[str, bool]]) -> bool:
    """Return whether exactly one of the two passes in each observation of both, and not always the same one."""
    seen = {(passed[pair[0]], passed[pair[1]]) for passed in observed if pair[0] in passed and pair[1] in passed}
    return seen == {(True, False), (False, True)}


def found(
    pairs: Iterable[tuple[str, str]],
    seen: Mapping[str, Seen],
    known: Mapping[tuple[str, str], KnownConflict] = MappingProxyType({}),
) -> tuple[list[ConflictPair], list[RepeatedPair]]:
    """Return the pairs that conflict and those that repeat each other; ``seen`` has the observations by their origin."""
    conflicts: list[ConflictPair] = []
    repeated: list[RepeatedPair] = []
    for pair in pairs:
        same = [where for where in seen if by_input([pair], seen[where].inputs)]
        if evidence := [where for where in same if contradict(pair, seen[where].held)]:
            conflicts.append({"tests": pair, "how": "input", "where": evidence, "known": known.get(pair)})
        elif alternate(pair, [each.passed for each in seen.values()]):
            both = [where for where in seen if seen[where].passed.keys() >= set(pair)]
            alone = {test: [where for where in both if seen[where].passed[test]] for test in pair}
            conflicts.append({
                "tests": pair, "how": "releases", "where": both, "known": known.get(pair),
                "passes": in_common(pair, seen), "alone": alone,
            })  # fmt: skip
        elif evidence := [where for where in same if repeat(pair, seen[where].held)]:
            repeated.append({"tests": pair, "how": "repeated", "where": evidence})
    return conflicts, repeated


def observe(current: Session, arguments: Sequence[str], pins: Pins, limits: Limits) -> Seen:
    """Run the tests under some pins; check each output against the directives of all tests with the same input."""
    chosen = choose(current.catalog, arguments, pins=pins).tests()
    tests = {
        test.id: test
        for test in chosen
        if test.is_ir
        and not test.pins
        and test.resolved_step
        and test.resolved_step.tool == "passes"
        # What another step makes has no parameters of this one.
        and test.workload not in current.catalog.steps[test.pipeline].runs
    }
    planner = Planner(current.catalog, ToleranceResolver(current.catalog).of, pins)
    verdicts = {name: planner.add(test) for name, test in tests.items()}
    printed = {name: planner.printed(test) for name, test in tests.items()}
    done = run_graph(current, planner.graph, limits=limits)
    inputs = {name: done[action].result.outputs["ir"] for name, action in printed.items() if done[action].result.ok}
    steps = {name: current.catalog.steps[test.pipeline].document for name, test in tests.items()}
    ends = {(name, name): verdict for name, verdict in verdicts.items()}
    for pair in by_input(candidates(steps), inputs):
        for maker, checked in (pair, pair[::-1]):
            ends[maker, checked] = planner.check_ir(tests[checked], planner.alone(tests[maker]))
    done = run_graph(current, planner.graph, limits=limits)
    held = {key: each for key, action in ends.items() if (each := _passed(done[action])) is not None}
    # Only tests with an output show something.
    made = {name for name, test in tests.items() if done[planner.alone(test).action].result.ok}
    passed = {name: each for (name, checked), each in held.items() if name == checked}
    passes = {
        name: pass_names(test.resolved_step.passes or "")
        for name, test in tests.items()
        if test.resolved_step is not None
    }
    return Seen(passed, inputs, {key: each for key, each in held.items() if key[0] in made}, passes)


def _passed(done: Done) -> bool | None:
    """Return whether an action passed; None if that says nothing about the code."""
    outcome = str(done.result.outcome["outcome"])
    if outcome in (Outcome.INFRA_ERROR, Outcome.SKIPPED):
        raise InfrastructureError(str(done.result.outcome.get("reason", outcome)))
    return None if outcome in _UNKNOWN else done.result.ok


def read_outcomes(catalog: Catalog, path: Path) -> Seen:
    """Return what a document of results has of IR tests. Raise UsageError."""
    try:
        document = json.loads(path.read_bytes())
        if document["schema"] != RESULTS:
            raise ValueError(document["schema"])
        entries = [entry for entry in document["tests"] if entry["target"] == IR_TARGET]
        passed = {
            entry["id"]: entry["outcome"] == Outcome.PASS for entry in entries if entry["outcome"] not in _UNKNOWN
        }
        passes = {entry["id"]: _passes_of(catalog, entry["pipeline"], entry.get("pins", {})) for entry in entries}
        releases = {name: release for entry in entries for name, release in entry.get("pins", {}).items()}
    except OSError as error:
        raise UsageError(f"--results {path}: {error.strerror}") from None
    except (ValueError, TypeError, LookupError, RecursionError):
        wrong = f"--results {path}: not a document of results; make one with: matrix run --format json"
        raise UsageError(wrong) from None
    return Seen(passed, passes=passes, releases=releases)


def _passes_of(catalog: Catalog, step: str, releases: Mapping[str, str]) -> frozenset[str]:
    """Return the passes of a step under some releases; none if the catalog does not have it, or does not know them."""
    if step not in catalog.steps:
        return frozenset()
    known = {
        name: release
        for name, release in releases.items()
        if name in catalog.components
        and any(each.release == release for each in catalog.components[name].document.releases)
    }
    resolved = resolve_step(catalog, step, Pins(catalog, known))
    return frozenset() if known != releases or isinstance(resolved, Unsupported) else pass_names(resolved.passes or "")


def by_releases(seen: Mapping[str, Seen]) -> dict[str, Seen]:
    """Return observations by names that also have the releases in which they differ."""
    every = {pin for each in seen.values() for pin in each.releases.items()}
    same = {pin for pin in every if all(pin in each.releases.items() for each in seen.values())}
    named = {}
    for where, each in seen.items():
        own = [f"{name} {release}" for name, release in sorted(each.releases.items()) if (name, release) not in same]
        named[f"{', '.join(own)} in {where}" if own else where] = each
    return named


def _listed(current: Session, arguments: Sequence[str], chosen: Iterable[str]) -> dict[tuple[str, str], KnownConflict]:
    """Return the conflicts between chosen tests that the suites list."""
    suites, tests = current.catalog.suites, frozenset(chosen)
    names = [name for name in arguments if name in suites] or [DEFAULT_SUITE]
    known: dict[tuple[str, str], KnownConflict] = {}
    for suite in [suites[name] for name in dict.fromkeys(names) if name in suites]:
        for index, stated in enumerate(suite.document.conflicts):
            if tests.issuperset(stated.tests):
                first, second = sorted(stated.tests)
                position = suite.source.position("conflicts", index)
                known[first, second] = {"reason": stated.reason.strip(), "position": position}
    return known


def find_conflicts(
    current: Session, arguments: Sequence[str], tests: Iterable[Test], seen: Mapping[str, Seen]
) -> Conflicts:
    """Return the document of the conflicts between IR tests, and of those that the suites in ``arguments`` list."""
    steps = {test.id: current.catalog.steps[test.pipeline].document for test in tests}
    known = _listed(current, arguments, steps)
    pairs = dict.fromkeys([*candidates(steps), *(pair for pair in sharing(seen) if steps.keys() >= set(pair))])
    conflicts, repeated = found(pairs, seen, known)
    conflicting = {pair["tests"] for pair in conflicts}
    stale: list[StaleConflict] = [{"tests": pair, **entry} for pair, entry in known.items() if pair not in conflicting]
    return {
        "schema": "mlir-matrix/conflicts/v1",
        "summary": {
            "tests": len(steps),
            "conflicts": len(conflicts),
            "unknown": sum(pair["known"] is None for pair in conflicts),
            "repeated": len(repeated),
            "stale": len(stale),
        },
        "tests": len(steps),
        "where": list(seen),
        "conflicts": conflicts,
        "repeated": repeated,
        "stale": stale,
    }
