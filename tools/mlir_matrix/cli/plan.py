"""``matrix plan``: which tests, which actions, which environments."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import click

from mlir_matrix.cli.common import (
    Verb,
    catalog_option,
    format_option,
    pin_option,
    sealed_option,
    session,
    tests_argument,
    used_pins,
)
from mlir_matrix.select import choose

_BATCH = 20_000


@click.command(
    "plan",
    cls=Verb,
    examples=(
        "matrix plan",
        "matrix plan 'jax/**' --format ids",
        "matrix plan smoke 'pytorch/*/x86_64/mlp*' --format json",
    ),
)
@tests_argument
@catalog_option
@pin_option
@sealed_option
@format_option("table", "json", "ids")
def command(tests: tuple[str, ...], catalogs: tuple[Path, ...], pins: tuple[str, ...], sealed: bool, form: str) -> None:
    """Show which tests would run, what is unsupported and why, and what they need.

    Without arguments it is the suite smoke. A glob is matched segment by segment; with a suite before it, it narrows the suite.
    """
    current = session(catalogs, pins=pins)
    choice = choose(current.catalog, tests, pins=current.pins)
    if form == "ids":
        _print_lines(choice.ids())
        return
    chosen = list(choice.tests(excluded=True))
    plan = current.plan([test for test in chosen if test.selected])
    used_pins(current, plan)
    if form == "json":
        from mlir_matrix.plan.serialize import to_document

        click.echo(json.dumps(to_document(chosen, plan, current, sealed=sealed), indent=1))
        return
    from mlir_matrix.report.plan_table import print_plan

    print_plan(chosen, plan, current, sealed=sealed)


def _print_lines(lines: Iterable[str]) -> None:
    """A line each, many at a time: a suite may have a million tests."""
    rest = iter(lines)
    while batch := list(islice(rest, _BATCH)):
        click.echo("\n".join(batch))
