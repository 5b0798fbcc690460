"""``matrix conflicts``: find pairs of IR tests that cannot both pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

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
from mlir_matrix.errors import UsageError
from mlir_matrix.execute.options import Limits
from mlir_matrix.expand.select import choose
from mlir_matrix.judge.conflicts import candidates, found, listed, observe, read_results, to_document
from mlir_matrix.session import Session
from mlir_matrix.text import counted

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.conflicts import Conflicts


_SAID = {
    "input": "take the same IR, and each output made of it satisfies exactly one of them",
    "releases": "pass in turn: wherever both were seen, exactly one of them passes",
    "repeated": "are of one step and take the same IR: one test could ask for both",
}


@click.command(
    "conflicts",
    cls=Verb,
    examples=(
        "matrix conflicts",
        "matrix conflicts 'mlir/linalg-*/ir/*' --over llvm=18,19,22",
        "matrix conflicts --results before.json --results after.json",
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

    Only IR tests among the selected tests count. A suite can list known pairs under 'conflicts'.

    Exit code 1: a pair is found that no suite lists, or a listed pair is not found.
    """
    current = session(catalogs, cache_dir, pins=pins)
    ir_tests = [test for test in choose(current.catalog, tests, pins=current.pins).tests() if test.is_ir]
    if len(ir_tests) < 2:
        raise UsageError(f"a conflict takes two IR tests or more; {counted(len(ir_tests), 'test')} chosen")
    if documents:
        seen = {str(path): read_results(path) for path in documents}
    else:
        seen = {name: observe(current, tests, own, limits) for name, own in _configurations(current, over).items()}
    steps = {test.id: current.catalog.steps[test.pipeline].document for test in ir_tests}
    pairs = found(
        candidates(steps),
        {name: each.passed for name, each in seen.items()},
        {name: each.inputs for name, each in seen.items()},
        {name: each.held for name, each in seen.items()},
    )
    known = listed(current, tests, set(steps))
    document = to_document(pairs, known, tests=len(ir_tests), where=list(seen))
    if form == "json":
        click.echo(json.dumps(document))
    else:
        _print(document)
    return 1 if document["stale"] or any(pair["known"] is None for pair in document["conflicts"]) else 0


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


def _print(document: Conflicts) -> None:
    for pair in document["conflicts"]:
        click.echo(f"conflict {' '.join(pair['tests'])}\n  they {_SAID[pair['how']]} ({', '.join(pair['where'])})")
        if known := pair["known"]:
            click.echo(f"  known: {known['reason']} ({known['position']})")
    for same in document["repeated"]:
        click.echo(f"repeated {' '.join(same['tests'])}\n  they {_SAID[same['how']]} ({', '.join(same['where'])})")
    for stale in document["stale"]:
        click.echo(f"stale {' '.join(stale['tests'])}\n  {stale['position']} lists a conflict, and there is none")
    unknown = sum(pair["known"] is None for pair in document["conflicts"])
    times = f", seen {len(document['where'])} times" if len(document["where"]) > 1 else ""
    said = (
        f"{counted(len(document['conflicts']), 'conflict')}, {unknown} not known; {len(document['repeated'])} repeated"
    )
    click.echo(f"{counted(document['tests'], 'IR test')}{times}: {said}")
