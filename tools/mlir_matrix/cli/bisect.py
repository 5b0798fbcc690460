"""``matrix bisect``: find the releases that changed the result of tests."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from mlir_matrix.bisect.bisection import Bisection, explain
from mlir_matrix.bisect.driver import SHORT, Driver, Find, Strategy
from mlir_matrix.bisect.log import Log, Past
from mlir_matrix.bisect.observations import Observation, Observations
from mlir_matrix.bisect.prober import Prober
from mlir_matrix.bisect.releases import Axis, default_component, make_axis, release_place, tests_on
from mlir_matrix.bisect.signature import BY, By
from mlir_matrix.cli import options
from mlir_matrix.cli.bisect_log import LAST, Continued, bisections
from mlir_matrix.cli.bisect_questions import ask
from mlir_matrix.errors import UsageError
from mlir_matrix.events import Event
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.expand.expansion import Test
from mlir_matrix.files import unwritable, write_text
from mlir_matrix.judge.results import Run
from mlir_matrix.paths import launcher
from mlir_matrix.report.axis_progress import shown_on_axis
from mlir_matrix.report.bisection_document import document
from mlir_matrix.report.bisection_markdown import markdown
from mlir_matrix.report.events import EventLog
from mlir_matrix.report.layout import print_lines
from mlir_matrix.report.page import page
from mlir_matrix.report.run_folder import RunFolder
from mlir_matrix.report.run_info import RunInfo

if TYPE_CHECKING:
    from mlir_matrix.execute.options import Limits
    from mlir_matrix.session import Session


@click.command(
    "bisect",
    cls=Continued,
    examples=(
        "matrix bisect mlir/math-poly/x86_64/asin",
        "matrix bisect 'mlir/math-expand/x86_64/*' --good 16 --bad 21",
        "matrix bisect pytorch/iree-llvm-cpu/iree-local/mlp --component iree --find fixed",
        "matrix bisect --resume",
    ),
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
    "--find",
    type=click.Choice(get_args(Find)),
    default="change",
    show_default=True,
    help="Look for any change, for passes that become failures, or for failures that become passes.",
)
@click.option(
    "--by",
    default=BY[0],
    show_default=True,
    callback=lambda _context, _parameter, text: By.parse(text),
    metavar="WHAT",
    help=f"Tell results apart by {', '.join(BY[:-1])} or {BY[-1]}, by ir:STEP, or by a metric, e.g. 'max_ulp<=4'.",
)
@click.option("--bindings", is_flag=True, help="Also use releases that come as Python bindings.")
@click.option("--skip", multiple=True, metavar="RELEASE", help="Do not probe RELEASE. Repeatable.")
@click.option(
    "--scan/--search",
    default=None,
    help=f"Probe every release, or search for one change. Default: scan up to {SHORT} releases.",
)
@click.option(
    "--repeats",
    type=click.IntRange(0, 1000),
    metavar="N",
    help="Repeat each probe of a scan, or those of a search that confirm its answer, N times. Default: 0 and 4.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    metavar="P",
    help="End a search when the candidates have this probability.",
)
@click.option("--interactive", is_flag=True, help="Ask what to make of each result; implies --search.")
@options.limits
@options.session(options.cache, *options.releases)
@options.events
@options.output_format("text", "json")
@options.quiet
@click.pass_context
def command(
    context: click.Context,
    /,
    tests: tuple[str, ...],
    component: str | None,
    good: str,
    bad: str,
    bindings: bool,
    skip: tuple[str, ...],
    limits: Limits,
    current: Session,
    **given: Any,
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

    def tests_at(points: Sequence[int]) -> tuple[Session, dict[str, dict[int, Test]]]:
        return current, {test: {point: every[point] for point in points} for test, every in on_axis.items()}

    past = context.obj if isinstance(context.obj, Past) else None
    arguments: list[str] = context.meta["arguments"]
    skipped = frozenset(release_place(current.catalog, axis, name, "--skip") for name in skip)
    if past:
        skipped |= {axis.names.index(name) for name in past.skipped if name in axis.names}
    return _Bisecting(current, axis, list(on_axis), past, arguments, limits, given).run(tests_at, skipped)


class _Bisecting:
    """A bisection with its folder."""

    def __init__(
        self,
        current: Session,
        axis: Axis,
        tests: list[str],
        past: Past | None,
        arguments: list[str],
        limits: Limits,
        given: dict[str, Any],
    ) -> None:
        self._session, self._axis, self._past, self._limits, self._given = current, axis, past, limits, given
        self._arguments, self._observations = arguments, Observations(tests)
        self._line = shlex.join([launcher(), "bisect", *arguments])
        self._events = EventLog(given["events"])
        self._run = Run()

    def run(self, tests_at: Any, skipped: frozenset[int]) -> int:
        strategy = self._strategy(skipped)
        folder = self._open(skipped)
        prober = Prober(
            tests_at=tests_at,
            observations=self._observations,
            by=self._given["by"],
            limits=self._limits,
            keep=self._keep,
            scratch=folder / "again",
        )
        driver = Driver(axis=self._axis, prober=prober, strategy=strategy)
        write = self._events.listener()
        with shown_on_axis(driver, quiet=self._given["quiet"] or self._given["interactive"]) as display:

            def listen(event: Event) -> None:
                display(event)
                write(event)

            prober.listener = listen
            driver.run()
            found = list(explain(self._session.catalog, driver, ActionCache(self._session.home.actions).read_blob))
        self._run.done = prober.done
        self._events.ended(self._run)
        reports = [_write_report(each, folder, self._line) for each in found]
        if self._given["form"] == "json":
            click.echo(json.dumps(document(found, reports, str(self._log.path)), indent=1))
        else:
            print_lines(_text(found, reports), stderr=str(self._given["events"]) == "-")
        return 0 if all(sum(point.known is not None for point in one.points) > 1 for one in found) else 3

    def _strategy(self, skipped: frozenset[int]) -> Strategy:
        """Return how to look for changes. Raise UsageError."""
        given, interactive = self._given, self._given["interactive"]
        if interactive and given["scan"]:
            raise UsageError("--interactive asks for the verdicts of a search; leave out --scan")
        if given["by"].kind == "time" and (interactive or given["scan"] is False or given["repeats"]):
            raise UsageError(
                "--by time compares the times of all releases; leave out --search, --interactive and --repeats"
            )
        scan = given["by"].kind == "time" or (
            not interactive and (len(self._axis) <= SHORT if given["scan"] is None else given["scan"])
        )
        return Strategy(
            scan=scan,
            jobs=self._limits.jobs,
            find=given["find"],
            confidence=given["confidence"],
            repeats=given["repeats"] if given["repeats"] is not None else 0 if scan or interactive else 4,
            skipped=skipped,
            review=(lambda seen, new: ask(self._axis, self._log, seen, new)) if interactive else None,
        )

    def _open(self, skipped: frozenset[int]) -> Path:
        """Make the folder, or open that of the bisection that goes on. Raise InfrastructureError."""
        root = bisections()
        run = RunFolder(root, {self._axis.component: f"{self._axis.names[0]}..{self._axis.names[-1]}"})
        try:
            if self._past and self._past.resumed:
                run.reopen(self._past.path.parent)
            folder = run.path
        except OSError as error:
            raise unwritable(f"no folder can be made in {root}", error) from None
        self._log = Log(folder / LAST, self._axis.names)
        tests, is_new = self._observations.tests, not self._log.path.exists()
        if is_new:
            self._log.begin(self._arguments, self._axis.component, tests)
        # Times are in the action cache.
        keeps = self._past is not None and self._given["by"].kind != "time"
        for each in self._past.observations(self._axis, tests, self._limits.timeout_s) if self._past and keeps else ():
            self._observations.add(each)
            if is_new:
                self._log.observed(each)
        before = (
            {self._axis.names.index(name) for name in self._past.skipped if name in self._axis.names}
            if self._past
            else set()
        )
        self._log.skipped(self._axis.names[point] for point in sorted(skipped - (set() if is_new else before)))
        about = RunInfo(self._line, [str(root) for root in self._session.catalog.roots])
        self._events.planned(about.started(), tests=len(self._observations.tests), unsupported=0, folder=run)
        return folder

    def _keep(self, seen: Observation) -> None:
        self._log.observed(seen)
        self._run.results.append(seen.result)


def _write_report(found: Bisection, folder: Path, line: str) -> Path:
    """Write the report of a test as Markdown and HTML. Raise InfrastructureError."""
    path = folder / found.test / "report.md"
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
