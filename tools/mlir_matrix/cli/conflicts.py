"""``matrix opposing``: find pairs of IR tests that cannot both pass."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.catalog.pins import Pins, read_pins
from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import (
    cache_option,
    catalog_option,
    format_option,
    limits_options,
    pin_option,
    session,
    tests_argument,
)
from mlir_matrix.errors import InfrastructureError, UsageError
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.options import Limits
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose
from mlir_matrix.judge.conflicts import Held, Pair, by_input, candidates, found
from mlir_matrix.judge.results import SCHEMA as RESULTS
from mlir_matrix.judge.run import run_graph
from mlir_matrix.plan.planner import Planner
from mlir_matrix.session import Session
from mlir_matrix.text import counted

SCHEMA = "mlir-matrix/opposing/v1"
#: What nobody knows anything by.
_UNKNOWN = frozenset({"skipped", "timed-out", "infra-error", "unsupported"})
_SAID = {
    "input": "take the same IR, and each output made of it satisfies exactly one of them",
    "releases": "pass in turn: wherever both were seen, exactly one of them passes",
    "repeated": "are of one step and take the same IR: one test could ask for both",
}


@dataclass(frozen=True)
class _Seen:
    """What was seen under one set of pins, or in one document of results."""

    passed: Mapping[str, bool]
    inputs: Mapping[str, str] = field(default_factory=dict)
    held: Held = field(default_factory=dict)


@click.command(
    "opposing",
    cls=Verb,
    examples=(
        "matrix opposing",
        "matrix opposing 'mlir/linalg-*/ir/*' --over llvm=18,19,22",
        "matrix opposing --results before.json --results after.json",
    ),
)
@tests_argument
@click.option("--over", metavar="COMPONENT=RELEASE,…", help="Compare results of these releases, e.g. llvm=19,22.")
@click.option(
    "--results",
    "documents",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="Run nothing; read results from FILE, written by matrix run --format json. Repeatable.",
)
@catalog_option
@pin_option
@cache_option
@format_option("text", "json")
@limits_options
def command(
    tests: tuple[str, ...],
    over: str | None,
    documents: tuple[Path, ...],
    catalogs: tuple[Path, ...],
    pins: tuple[str, ...],
    cache_dir: Path | None,
    form: str,
    limits: Limits,
) -> int:
    """Find pairs of IR tests that cannot both pass.

    Only IR tests among the selected tests count. A suite can list known pairs under 'opposing'.

    Exit code 1: a pair is found that no suite lists, or a listed pair is not found.
    """
    current = session(catalogs, cache_dir, pins=pins)
    ir_tests = [test for test in choose(current.catalog, tests, pins=current.pins).tests() if test.is_ir]
    if len(ir_tests) < 2:
        raise UsageError(
            f"there must be two IR tests or more to oppose each other; {counted(len(ir_tests), 'test')} chosen"
        )
    if documents:
        seen = {str(path): _read(path) for path in documents}
    else:
        seen = {name: _observe(current, tests, own, limits) for name, own in _configurations(current, over).items()}
    steps = {test.id: current.catalog.steps[test.pipeline].document for test in ir_tests}
    pairs = found(
        candidates(steps),
        {name: each.passed for name, each in seen.items()},
        {name: each.inputs for name, each in seen.items()},
        {name: each.held for name, each in seen.items()},
    )
    known = _known(current, tests, set(steps))
    return _report(form, pairs, known, tests=len(ir_tests), where=list(seen))


def _configurations(current: Session, over: str | None) -> dict[str, Pins]:
    """The pins under which tests are seen, by name."""
    if over is None:
        return {
            ", ".join(f"{name}={release}" for name, release in current.pins.overrides.items()) or "here": current.pins
        }
    component, mark, releases = over.partition("=")
    if not (mark and component and releases):
        raise UsageError(f"--over {over}: expected COMPONENT=RELEASE,RELEASE, e.g. llvm=19,22")
    words = [f"{component}={release}" for release in releases.split(",")]
    for word in words:
        read_pins(current.catalog, [word], "--over")
    return {word: current.pins.override(word) for word in dict.fromkeys(words)}


def _observe(current: Session, arguments: Sequence[str], pins: Pins, limits: Limits) -> _Seen:
    """Run the tests under some pins, and hold each output against the directives of all tests with the same input."""
    chosen = choose(current.catalog, arguments, pins=pins).tests()
    tests = {test.id: test for test in chosen if test.is_ir and test.recipe and test.recipe.tool == "passes"}
    planner = Planner(current.catalog, current.tolerance, pins)
    verdicts = {name: planner.add(test) for name, test in tests.items()}
    printed = {name: planner.printed(test) for name, test in tests.items()}
    done = run_graph(current, planner.graph, limits=limits)
    inputs = {name: done[action].result.outputs["ir"] for name, action in printed.items() if done[action].result.ok}
    steps = {name: current.catalog.steps[test.pipeline].document for name, test in tests.items()}
    ends = {(name, name): verdict for name, verdict in verdicts.items()}
    for pair in by_input(candidates(steps), inputs):
        for maker, checked in (pair, pair[::-1]):
            ends[maker, checked] = _cross(planner, tests[maker], tests[checked])
    done = run_graph(current, planner.graph, limits=limits)
    held = {key: each for key, action in ends.items() if (each := _passed(done[action])) is not None}
    # What made no output satisfies nothing, and shows nothing either.
    made = {name for name, test in tests.items() if done[planner.alone(test).action].result.ok}
    passed = {name: each for (name, checked), each in held.items() if name == checked}
    return _Seen(passed, inputs, {key: each for key, each in held.items() if key[0] in made})


def _cross(planner: Planner, maker: Test, checked: Test) -> str:
    return planner.check(checked, planner.alone(maker))


def _passed(done: Done) -> bool | None:
    """Whether an action passed; None where that says nothing about the code."""
    outcome = str(done.result.outcome["outcome"])
    if outcome == "infra-error":
        raise InfrastructureError(str(done.result.outcome.get("reason", outcome)))
    return None if outcome in _UNKNOWN else done.result.ok


def _read(path: Path) -> _Seen:
    """What a document of results says of IR tests."""
    try:
        document = json.loads(path.read_bytes())
        entries = document["tests"] if document["schema"] == RESULTS else None
        outcomes = {entry["id"]: entry["outcome"] for entry in entries or () if entry["target"] == "ir"}
    except OSError as error:
        raise UsageError(f"--results {path}: {error.strerror}") from None
    except (ValueError, TypeError, LookupError, RecursionError):
        entries = None
    if entries is None:
        raise UsageError(f"--results {path}: it holds no results; make them with: matrix run --format json")
    return _Seen({name: outcome == "pass" for name, outcome in outcomes.items() if outcome not in _UNKNOWN})


def _known(current: Session, arguments: Sequence[str], chosen: set[str]) -> dict[tuple[str, ...], dict[str, str]]:
    """The pairs of chosen tests that the suites state, which are asked for or meant, with reason and place."""
    suites = current.catalog.suites
    names = [name for name in arguments if name in suites] or [DEFAULT_SUITE]
    known = {}
    for suite in [suites[name] for name in dict.fromkeys(names) if name in suites]:
        for index, stated in enumerate(suite.document.opposing):
            if chosen.issuperset(stated.tests):
                place = {"reason": stated.reason.strip(), "position": suite.source.position("opposing", index)}
                known[tuple(sorted(stated.tests))] = place
    return known


def _report(
    form: str, pairs: Iterable[Pair], known: Mapping[tuple[str, ...], dict[str, str]], *, tests: int, where: list[str]
) -> int:
    opposed = [pair for pair in pairs if pair.how != "repeated"]
    repeated = [pair for pair in pairs if pair.how == "repeated"]
    stale = [(names, place) for names, place in known.items() if names not in {pair.tests for pair in opposed}]
    surprises = [pair for pair in opposed if pair.tests not in known]
    if form == "json":
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "tests": tests,
            "where": where,
            "opposing": [{**pair.to_json(), "known": known.get(pair.tests)} for pair in opposed],
            "repeated": [pair.to_json() for pair in repeated],
            "stale": [{"tests": list(names), **place} for names, place in stale],
        }
        click.echo(json.dumps(document))
        return 1 if surprises or stale else 0
    for pair in [*opposed, *repeated]:
        place = known.get(pair.tests)
        click.echo(f"{'repeated' if pair.how == 'repeated' else 'opposing'} {pair.tests[0]} {pair.tests[1]}")
        click.echo(f"  they {_SAID[pair.how]} ({', '.join(pair.where)})")
        if place:
            click.echo(f"  known: {place['reason']} ({place['position']})")
    for names, place in stale:
        click.echo(f"stale {' '.join(names)}\n  {place['position']} says that they oppose each other, and they do not")
    times = f", seen {len(where)} times" if len(where) > 1 else ""
    said = f"{counted(len(opposed), 'pair')} opposing, {len(surprises)} not known; {len(repeated)} repeated"
    click.echo(f"{counted(tests, 'IR test')}{times}: {said}")
    return 1 if surprises or stale else 0
