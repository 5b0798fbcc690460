"""Run a bisection in a separate folder with its log and reports, and ask a person for verdicts if requested."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.events import Event
from mlir_matrix.base.files import unwritable, write_file
from mlir_matrix.base.paths import launcher
from mlir_matrix.bisect.axes import Ground
from mlir_matrix.bisect.bisection import Bisection, Repeat, explain
from mlir_matrix.bisect.driver import SHORT, Find, SearchDriver, Strategy
from mlir_matrix.bisect.log import LAST, Log, Past, bisections
from mlir_matrix.bisect.observations import Observation, Observations
from mlir_matrix.bisect.pin_driver import PinDriver
from mlir_matrix.bisect.prober import Prober
from mlir_matrix.bisect.releases import Axis
from mlir_matrix.bisect.report.document import Reported
from mlir_matrix.bisect.report.markdown import GOOD, markdown
from mlir_matrix.bisect.report.progress import shown_on_axis
from mlir_matrix.bisect.search.history import GraphHistory, history
from mlir_matrix.bisect.signature import By
from mlir_matrix.cli.options import OF_RUN
from mlir_matrix.cli.output import note
from mlir_matrix.cli.verbs import option_words
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.results.event_log import EventLog
from mlir_matrix.results.report.markdown import write_with_page
from mlir_matrix.results.results import Run
from mlir_matrix.results.run_folder import RunFolder
from mlir_matrix.results.run_info import RunInfo
from mlir_matrix.results.signature import PASS, Signature

if TYPE_CHECKING:
    from mlir_matrix.environments.session import Session
    from mlir_matrix.plan.request import Limits

_ANSWERS = {
    "g": PASS,
    "b": Signature(outcome=Outcome.MISMATCH, details=("judged bad by a person",)),
    "s": None,
}


def ask(axis: Axis, log: Log, observations: Observations, new: Sequence[Observation]) -> None:
    """Ask for the verdict of each new observation, and keep it. Raise click's Exit when the person stops."""
    for seen in new:
        result = seen.result
        note("")
        note(f"{seen.test} with {axis.component} {axis.names[seen.point]}: {result.outcome}")
        for line in (result.reason, *result.diagnostics.splitlines()[:12]):
            if line:
                note(f"  {line}")
        guess = "s" if seen.signature is None else "g" if seen.signature == PASS else "b"
        answer = click.prompt(
            "Is it good (g), bad (b), or skip (s)? Stop here: q",
            type=click.Choice([*_ANSWERS, "q"]),
            default=guess,
            show_choices=False,
            err=True,
        )
        if answer == "q":
            note(f"continue with: {launcher()} bisect --resume")
            raise click.exceptions.Exit(0)
        judged = replace(seen, signature=_ANSWERS[answer], judged=True)
        log.judged(judged, observations.replace(seen, judged))


#: Those that say where to look.
_OF_ENDS = (
    "reducing",
    "component",
    "good",
    "bad",
    "find",
    "skip",
    "bindings",
    "scan",
    "events",
    "form",
    "quiet",
    "dry_run",
)


#: Repeats that confirm the answer of a search.
_REPEATS = 4


@dataclass(frozen=True, kw_only=True)
class BisectOptions:
    """How to bisect, as the command line says."""

    by: By
    find: Find
    scan: bool | None
    repeats: int | None
    confidence: float
    interactive: bool
    skip: tuple[str, ...]
    events: Path | None
    quiet: bool
    limits: Limits


class BisectionRun:
    """A bisection with its folder."""

    def __init__(
        self,
        session: Session,
        ground: Ground,
        how: BisectOptions,
        arguments: Sequence[str],
        past: Past | None,
        command: click.Command,
    ) -> None:
        """``arguments`` of ``command`` repeat it; ``past``: the log that it begins with."""
        self._session, self._ground, self._how, self._past = session, ground, how, past
        self._arguments = list(arguments)
        self._line = shlex.join([launcher(), "bisect", *arguments])
        self._repeat = Repeat(
            run=option_words(command, arguments, only=OF_RUN),
            bisect=option_words(command, arguments, without=_OF_ENDS),
        )
        self._observations = Observations(ground.tests)
        self._events = EventLog(how.events)
        self._run = Run()
        axis = ground.axis
        self._skipped = frozenset(ground.place(name, "--skip") for name in how.skip)
        if past:
            self._skipped |= {axis.names.index(name) for name in past.skipped if name in axis.names}
        if ends := sorted({axis.good, axis.bad} & self._skipped, key=str):
            raise UsageError(f"--skip {axis.names[ends[0] or 0]}: it is an end of the range; name another end")

    def run(self) -> list[Reported]:
        """Bisect, and write the reports. Raise MatrixError, or the interruption."""
        strategy, axis = self._strategy(), self._ground.axis
        folder = self._open()
        prober = Prober(
            tests_at=self._ground.tests_at,
            observations=self._observations,
            by=self._how.by,
            limits=self._how.limits,
            keep=self._keep,
        )
        driver = SearchDriver(axis=axis, prober=prober, strategy=strategy)
        if self._ground.pins:
            driver = PinDriver(axis=axis, prober=prober, strategy=strategy, pins=self._ground.pins)
        try:
            found = self._drive(driver)
        except (KeyboardInterrupt, click.Abort) as interruption:
            interruption.advice = f"continue with: {launcher()} bisect --resume"  # type: ignore[union-attr]
            raise
        self._run.done = prober.done
        self._events.ended(self._run)
        return [
            Reported(bisection=each, report=_write_report(each, folder, self._line), log=self._log.path)
            for each in found
        ]

    def _drive(self, driver: SearchDriver) -> list[Bisection]:
        write = self._events.listener()
        with shown_on_axis(driver, quiet=self._how.quiet or self._how.interactive) as display:

            def listen(event: Event) -> None:
                display(event)
                write(event)

            driver.prober.listener = listen
            driver.run()
            read = ActionCache(self._session.home.actions).read_blob
            return list(explain(self._session.catalog, driver, read, self._repeat))

    def _strategy(self) -> Strategy:
        """Return how to look for changes. Raise UsageError."""
        how, axis = self._how, self._ground.axis
        if how.interactive and how.scan:
            raise UsageError("--interactive asks for the verdicts of a search; leave out --scan")
        timed = how.by.kind == "time"
        if timed and (how.interactive or how.scan is False or how.repeats or axis.noun != "release"):
            raise UsageError(
                "--by time compares the times of all releases; leave out --search, --interactive, --repeats and commits"
            )
        if how.scan and axis.parents is not None and isinstance(history(axis.parents), GraphHistory):
            raise UsageError(
                "--scan takes commits in a line; these have merges: add --first-parent, or leave out --scan"
            )
        short = axis.noun == "release" and len(axis) <= SHORT
        scan = timed or (not how.interactive and (short if how.scan is None else how.scan))
        return Strategy(
            scan=scan,
            jobs=self._ground.at_once or how.limits.jobs,
            find=how.find,
            confidence=how.confidence,
            repeats=how.repeats if how.repeats is not None else 0 if scan or how.interactive else _REPEATS,
            prior=self._ground.prior,
            skipped=self._skipped,
            review=(lambda seen, new: ask(axis, self._log, seen, new)) if how.interactive else None,
        )

    def _open(self) -> Path:
        """Make the folder, or open that of the bisection that goes on. Raise InfrastructureError."""
        root, axis, tests = bisections(), self._ground.axis, self._observations.tests
        run = RunFolder(
            root, {axis.component: f"{axis.names[0]}..{axis.names[-1]}" if axis.noun != "pin set" else "pins"}
        )
        try:
            if self._past and self._past.resumed:
                run.reopen(self._past.path.parent)
            folder = run.path
        except OSError as error:
            raise unwritable(f"no folder can be made in {root}", error) from None
        self._log = Log(folder / LAST, axis.names)
        past, is_new = self._past, not self._log.path.exists()
        if past and past.undo:
            self._log.undone()
        self._log.begin(self._arguments, axis.component, tests)
        # Times are in the action cache.
        if past and self._how.by.kind != "time":
            for each in past.observations(axis, tests, self._how.limits.timeout_s, self._how.by):
                if each.point in self._skipped:
                    continue
                self._observations.add(each)
                if is_new:
                    self._log.observed(each, self._how.by)
        known = past.skipped if past and not is_new else set()
        self._log.skipped(name for point in sorted(self._skipped) if (name := axis.names[point]) not in known)
        about = RunInfo(self._line, [str(each) for each in self._session.catalog.roots])
        self._events.planned(about.started(), tests=len(tests), unsupported=0, folder=run)
        return folder

    def _keep(self, seen: Observation) -> None:
        self._log.observed(seen, self._how.by)
        self._run.results.append(seen.result)


def _write_report(found: Bisection, folder: Path, line: str) -> Path:
    """Write the report of a test as Markdown and HTML, and the files that its commands need. Raise InfrastructureError."""
    path = folder / found.test / "report.md"
    good = found.passing[1].files if found.passing and found.passing[1] != found.commands else {}
    for name, data in (*found.commands.files.items(), *((f"{GOOD}/{name}", data) for name, data in good.items())):
        write_file(path.parent / name, data)
    text = markdown(found, line)
    write_with_page(path, text)
    return path
