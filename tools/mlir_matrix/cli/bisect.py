"""``matrix bisect``: find the releases that changed the result of tests."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlir_matrix.bisect.bisection import Bisection, explain
from mlir_matrix.bisect.log import Log, new_folder
from mlir_matrix.bisect.observations import observe
from mlir_matrix.bisect.releases import default_component, make_axis, tests_on
from mlir_matrix.bisect.signature import BY, PASS
from mlir_matrix.catalog.releases import find
from mlir_matrix.cli import options
from mlir_matrix.cli.lazy import verb
from mlir_matrix.cli.output import show
from mlir_matrix.errors import UsageError
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.files import write_text
from mlir_matrix.paths import is_installed
from mlir_matrix.report.bisection_document import document
from mlir_matrix.report.bisection_markdown import markdown
from mlir_matrix.report.page import page
from mlir_matrix.report.progress import shown

if TYPE_CHECKING:
    from mlir_matrix.execute.options import Limits
    from mlir_matrix.session import Session


@verb(
    "bisect",
    "matrix bisect mlir/math-poly/x86_64/asin",
    "matrix bisect 'mlir/math-expand/x86_64/*' --good 16 --bad 21",
    "matrix bisect pytorch/iree-llvm-cpu/iree-local/mlp --component iree",
)
@options.named_tests
@click.option(
    "--component",
    metavar="COMPONENT",
    help="Bisect the releases of COMPONENT. Default: the compiler of the tests' steps.",
)
@click.option("--good", default="", metavar="RELEASE", help="A release where the tests pass: one end of the range.")
@click.option("--bad", default="", metavar="RELEASE", help="A release where they do not: the other end.")
@click.option(
    "--by",
    type=click.Choice(BY),
    default=BY[0],
    show_default=True,
    help="Tell results apart by all that is known of a failure, by the outcome alone, or by the bytes of the outputs.",
)
@click.option("--bindings", is_flag=True, help="Also use releases that come as Python bindings.")
@options.limits
@options.session(options.cache, *options.releases)
@options.output_format("text", "json")
@options.quiet
def command(
    tests: tuple[str, ...],
    component: str | None,
    good: str,
    bad: str,
    by: str,
    bindings: bool,
    limits: Limits,
    current: Session,
    form: str,
    quiet: bool,
) -> int:
    """Find the releases of a component that changed the result of tests.

    Run the tests at each release, and report every change: how the tests behave before and after, the first step whose IR
    differs, and commands that repeat it. Each report is also written as Markdown, ready for an issue, and as HTML.

    Exit code: 0 each test has a result at two releases or more; 3 for some test, nothing can be told.
    """
    chosen = component or default_component(current.catalog, tests)
    if chosen in current.pins.overrides:
        raise UsageError(f"--pin {chosen}=…: a bisection of {chosen} chooses its releases; use --good and --bad")
    axis = make_axis(current.catalog, chosen, good=good, bad=bad, bindings=bindings)
    on_axis = tests_on(current, tests, axis)
    log = Log(new_folder(current.home.state, list(on_axis)), axis)
    line = shlex.join(["matrix" if is_installed() else "tools/matrix", *sys.argv[1:]])
    log.begin(line, list(on_axis))
    count = sum(each.outcome is None for points in on_axis.values() for each in points)
    with shown(count, quiet=quiet) as display:
        scan = observe(current, on_axis, by=by, limits=limits, keep=log.observed, listener=display)
    if scan.run.interruption is not None:
        raise scan.run.interruption
    found = list(explain(current.catalog, axis, scan, ActionCache(current.home.actions).read_blob))
    if good and bad:
        for each in found:
            _check_ends(each, good, bad)
    reports = [_write_report(each, log.folder, line) for each in found]
    show(form, document(found, reports, str(log.folder / "log.ndjson")), _text(found, reports), markup=True)
    return 0 if all(sum(each.signature is not None for each in one.observations) > 1 for one in found) else 3


def _check_ends(found: Bisection, good: str, bad: str) -> None:
    """Raise UsageError unless a test passes at the good end and fails at the bad one."""
    at = {name: find(found.axis.releases, name) for name in (good, bad)}
    seen = {
        name: found.observations[found.axis.releases.index(release or "")].signature for name, release in at.items()
    }
    if seen[bad] == PASS and seen[good] not in (PASS, None):
        raise UsageError(f"{found.test} passes at --bad {bad} and not at --good {good} ({seen[good]}); swap them")
    if seen[good] is not None and seen[good] == seen[bad]:
        raise UsageError(
            f"{found.test} behaves alike at --good {good} and --bad {bad} ({seen[good]}); choose other ends"
        )


def _write_report(found: Bisection, folder: Path, line: str) -> Path:
    """Write the report of a test as Markdown and HTML. Raise InfrastructureError."""
    path = folder / found.test / "report.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = markdown(found, line)
    write_text(path, text)
    write_text(path.with_suffix(".html"), page(text))
    return path


def _text(found: Sequence[Bisection], reports: Sequence[Path]) -> Iterator[Any]:
    from rich.markup import escape

    from mlir_matrix.report.bisection_text import bisection_lines  # imports rich

    for number, (each, path) in enumerate(zip(found, reports, strict=True)):
        yield from [""] if number else []
        yield from bisection_lines(each)
        yield f"report: {escape(str(path))}"
