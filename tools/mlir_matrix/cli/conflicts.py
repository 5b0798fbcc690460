"""``matrix conflicts``: find pairs of IR tests that cannot both pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.text import counted
from mlir_matrix.catalog.pins import Pins, read_pins
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.judge.conflicts import find_conflicts, observe, read_results
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import select_tests

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.conflicts import ConflictPair, Conflicts, RepeatedPair

_EVIDENCE = {
    "input": "take the same IR, and each output satisfies exactly one of them",
    "releases": "pass in turn: in each run of both, exactly one of them passes",
    "repeated": "are of one step and take the same IR: one test could check both",
}


@verb(
    "conflicts",
    "matrix conflicts",
    "matrix conflicts 'mlir/linalg-*/ir/*' --over llvm=18,19,22",
    "matrix conflicts --results before.json --results after.json",
)
@options.tests
@click.option("--over", metavar="COMPONENT=RELEASE,…", help="Compare results of these releases, e.g. llvm=19,22.")
@click.option(
    "--results",
    "documents",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="Run nothing; read results from FILE, written by matrix run --results. Repeatable.",
)
@options.session(*options.releases, options.cache)
@options.output_format("text", "json")
@options.limits
def conflicts_command(
    tests: tuple[str, ...], over: str | None, documents: tuple[Path, ...], current: Session, form: str, limits: Limits
) -> int:
    """Find pairs of IR tests that cannot both pass.

    Only IR tests without pins among the selected tests count; --over compares releases. A suite can list known pairs under
    'conflicts'.

    Exit code 1: a pair is found that no suite lists, or a listed pair is not found.
    """
    ir_tests = [test for test in select_tests(current, tests) if test.is_ir and not test.pins]
    if len(ir_tests) < 2:
        raise UsageError(
            f"conflicts are between two IR tests or more; {counted(len(ir_tests), 'IR test')} without pins selected"
        )
    if documents:
        seen = {str(path): read_results(path) for path in documents}
    else:
        seen = {name: observe(current, tests, own, limits) for name, own in _configurations(current, over).items()}
    document = find_conflicts(current, tests, ir_tests, seen)
    show(form, document, _lines(document))
    return 1 if document["stale"] or any(pair["known"] is None for pair in document["conflicts"]) else 0


def _configurations(current: Session, over: str | None) -> dict[str, Pins]:
    """Return the pins under which tests run, by name."""
    if over is None:
        name = ", ".join("=".join(pin) for pin in current.pins.overrides.items())
        return {name or "here": current.pins}
    component, mark, releases = over.partition("=")
    if not (mark and component and releases):
        raise UsageError(f"--over {over}: expected COMPONENT=RELEASE,RELEASE, e.g. llvm=19,22")
    words = [f"{component}={release}" for release in releases.split(",")]
    for word in words:
        read_pins(current.catalog, [word], "--over")
    return {word: current.pins.override(word) for word in dict.fromkeys(words)}


def _lines(document: Conflicts) -> Iterator[str]:
    for pair in document["conflicts"]:
        yield from _pair("conflict", pair)
        if known := pair["known"]:
            yield f"  known: {known['reason']} ({known['position']})"
    for same in document["repeated"]:
        yield from _pair("repeated", same)
    for stale in document["stale"]:
        yield f"stale {' '.join(stale['tests'])}\n  {stale['position']} lists a conflict, and there is none"
    unknown = sum(pair["known"] is None for pair in document["conflicts"])
    times = f", seen {len(document['where'])} times" if len(document["where"]) > 1 else ""
    conflicts = f"{counted(len(document['conflicts']), 'conflict')}, {unknown} not known"
    yield f"{counted(document['tests'], 'IR test')}{times}: {conflicts}; {len(document['repeated'])} repeated"


def _pair(word: str, pair: ConflictPair | RepeatedPair) -> Iterator[str]:
    yield f"{word} {' '.join(pair['tests'])}"
    yield f"  they {_EVIDENCE[pair['how']]} ({', '.join(pair['where'])})"
