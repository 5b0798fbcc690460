"""Print the documents, text and warnings of verbs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from operator import methodcaller
from typing import TYPE_CHECKING

import click

from mlir_matrix.base.names import is_glob
from mlir_matrix.base.text import counted, harmless

if TYPE_CHECKING:
    from mlir_matrix.catalog.catalog import Catalog
    from mlir_matrix.environments.session import Session
    from mlir_matrix.plan.graph import Graph

#: How many unusable members, workloads and suites to name.
_MOST_LEFT_OUT = 10


def show(form: str, document: object, lines: Iterable[str], *, markup: bool = False) -> None:
    """Print a document as JSON if ``form`` is ``json``, else print lines. JSON does not consume ``lines``.

    A document may hold models of the catalog.
    """
    if form == "json":
        click.echo(json.dumps(document, indent=1, default=methodcaller("model_dump", by_alias=True, mode="json")))
    elif markup:
        from mlir_matrix.base.layout import print_lines  # imports rich

        print_lines(lines)
    else:
        for line in lines:
            click.echo(harmless(line))


def show_each(form: str, tests: Sequence[str], documents: Sequence[object], texts: Iterable[Iterable[str]]) -> None:
    """Print a document for each test: a JSON list, or for one identifier the document alone; or texts between empty lines."""
    single = len(tests) == 1 and not is_glob(tests[0])
    lines = (line for number, text in enumerate(texts) for line in (*([""] if number else []), *text))
    show(form, documents[0] if single else documents, lines)


def note(text: str) -> None:
    """Print text to stderr without control characters: it may come from programs under test or from servers."""
    click.echo(harmless(text), err=True)


def warn(*messages: object) -> None:
    """Print messages to stderr, with the program's name."""
    for message in messages:
        note(f"matrix: {message}")


def report_trim(removed: str, problem: str, *, quiet: bool) -> None:
    """Print what :func:`mlir_matrix.execute.eviction.trim_cache` returns."""
    if removed and not quiet:
        note(removed)
    if problem:
        warn(problem)


def warn_left_out(catalog: Catalog) -> None:
    """Warn of members, workloads and suites that cannot be used. If they are many, name the first."""
    reasons = list(catalog.over.values())
    warn(*reasons[:_MOST_LEFT_OUT])
    if (more := len(reasons) - _MOST_LEFT_OUT) > 0:
        warn(f"{more} more cannot be used; matrix plan shows the reason of each")


def warn_unsized(catalog: Catalog, size: str, workloads: Collection[str]) -> None:
    """Warn of workloads that stay in their own size, although ``--size`` names another."""
    names = sorted(catalog.unsized.keys() & workloads)
    if names:
        shown = ", ".join(f"{name} ({catalog.unsized[name]})" for name in names[:3])
        more = f", and {len(names) - 3} more" if len(names) > 3 else ""
        warn(f"--size {size}: {counted(len(names), 'workload')} in the size of dims: {shown}{more}")


def used_pins(current: Session, graph: Graph) -> dict[str, str]:
    """Return the pins of the command line that a graph uses; warn about the others."""
    references = {action.environment for action in graph.actions.values()}
    found = (pair for each in references for pair in (*current.releases(each), *current.needs(each)))
    used = {(entry.name, release.release) for entry, release in found}
    for name, release in current.pins.overrides.items() - used:
        warn(f"--pin {name}={release}: no selected test uses {name} {release}")
    found_pins = dict(sorted(current.pins.overrides.items() & used))
    steps = {action.label for action in graph.actions.values()}
    for word in current.pins.step_words:
        name, _, release = word.partition("=")
        step = name.partition(":")[0]
        if step in steps:
            found_pins[name] = release
        else:
            warn(f"--pin-step {word}: no selected test has the step {step}")
    return found_pins
