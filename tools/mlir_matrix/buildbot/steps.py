"""Define the steps of a build: ``matrix run``, whose events become steps of cells, ``matrix bisect``, and other verbs."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from buildbot.data import resultspec
from buildbot.process import remotecommand
from buildbot.process.buildstep import BuildStep
from buildbot.process.log import Log
from twisted.internet import defer

from mlir_matrix.base.names import TestId
from mlir_matrix.base.text import counted, harmless
from mlir_matrix.buildbot import worker_files
from mlir_matrix.buildbot.cells import CellStep, data_name, framed, pictures, test_name
from mlir_matrix.buildbot.state import (
    EXCEPTION,
    FAILURE,
    RETRY,
    SUCCESS,
    BuildVerdict,
    CellOutcomes,
    Entry,
    fails,
    judge,
    read_event,
    read_results,
    result_of,
)
from mlir_matrix.results.report.failure_text import cause_text
from mlir_matrix.results.report.markdown import page

#: The most bytes of a results document, of the files of one failure, and of its pictures.
_MOST_RESULTS = 256 << 20
_MOST_FILES = 8 << 20
_MOST_PICTURES = 2 << 20
#: How many failures' files to fetch, and how many causes to show in full.
_FETCHED = 10
_CAUSES = 20
#: How many lines of stdout that are not events to show.
_ODD_LINES = 20
#: How many earlier builds to search for one with the same command.
_BACK = 300
_STATE = "matrix-state"
#: A line that names a report.
_REPORT = re.compile(r" *report: +(/.+\.md)")
#: Seconds between SIGTERM, after which results are still written, and SIGKILL.
_TERM_S = 60


class _Command(remotecommand.RemoteShellCommand):  # type: ignore[misc]
    """A command whose lines on stdout go to a function. The log has its stderr without Buildbot's red colour."""

    def __init__(self, on_lines: Callable[[str], Awaitable[None]], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._on_lines = on_lines

    def add_stdout_lines(self, data: str, is_flushed: bool) -> defer.Deferred[None]:
        return defer.ensureDeferred(self._on_lines(data))

    def add_stderr_lines(self, data: str, is_flushed: bool) -> defer.Deferred[None]:
        return self.logs["stdio"].add_stdout_lines(data)


class _MatrixStep(BuildStep):  # type: ignore[misc]
    """A step that runs a command of ``matrix``."""

    haltOnFailure = flunkOnFailure = True  # noqa: N815 - Buildbot's names
    renderables = ("command", "env")

    def __init__(
        self, command: Any, *, env: Mapping[str, str] | None = None, timeout_s: float = 3600, **options: Any
    ) -> None:
        """Make the step. ``timeout_s``: the most seconds without a line."""
        super().__init__(**options)
        self.command, self.env, self._timeout_s = command, dict(env or {}), timeout_s
        self._verdict = self._news = ""
        self._lock = defer.DeferredLock()

    def run(self) -> defer.Deferred[int]:
        return defer.ensureDeferred(self._run())

    async def _run(self) -> int:
        raise NotImplementedError

    async def _call(self, words: Sequence[str], on_lines: Callable[[str], Awaitable[None]]) -> int | None:
        """Run a command; return its exit code. Raise ConnectionLost."""
        self._stdio: Log = await self.addLog("stdio")
        # If a worker is killed, the build is repeated. The old run must end, because both share a checkout.
        env = {"MATRIX_END_WITH_PARENT": "1", **await self.build.render(self.build.env), **self.env}
        command = _Command(
            on_lines, self.workdir, list(words), env=env, timeout=self._timeout_s, sigtermTime=_TERM_S, logEnviron=False
        )
        command.useLog(self._stdio)
        await self.runCommand(command)
        code: int | None = command.rc
        return code

    def getCurrentSummary(self) -> dict[str, str]:  # noqa: N802 - Buildbot's name
        return {"step": self._verdict or "starting"}

    def getResultSummary(self) -> dict[str, str]:  # noqa: N802 - Buildbot's name
        text = self._verdict or "no results"
        build = self._news or ("" if self.results == SUCCESS else text)
        return {"step": text, "build": build} if build else {"step": text}

    async def _keep(self, name: str, data: bytes, url_of: Callable[[str, str], Awaitable[None]], called: str) -> None:
        """Store bytes with the build, and link to them as a download."""
        await self.master.data.updates.setBuildData(self.build.buildid, name, data, self.name)
        base = self.master.config.buildbotURL
        await url_of(called, f"{base}api/v2/builds/{self.build.buildid}/data/{name}/value")


class MatrixRun(_MatrixStep):
    """Run ``matrix run``; show each cell as a step."""

    name = "matrix run"

    def __init__(self, command: Any, *, results: str = "../results.json", **options: Any) -> None:
        """Make the step. ``results``: the file on the worker, beside the checkout."""
        super().__init__(command, **options)
        self._file = results
        self._steps: dict[str, CellStep] = {}
        self._odd = 0
        self._began = 0.0
        self._planned = self._finished = self._wrong = 0

    async def _run(self) -> int:
        self._began = self.master.reactor.seconds()
        await worker_files.remove(self, f"{self.workdir}/{self._file}")
        words = [*self.command[:2], "--events", "-", "--results", self._file, *self.command[2:]]
        lost: int | None = EXCEPTION
        try:
            code = await self._call(words, self._take)
            result = lost = self.build.stop_result if self.stopped else result_of(code)
            # Wait until all earlier events are handled.
            await self._lock.run(lambda: None)
            verdict = await self._take_results(result)
            if verdict is not None:
                lost = None
                result = FAILURE if result == SUCCESS and verdict.still_failing else result
            elif result == SUCCESS:
                # Without results, it is unknown whether earlier failures are fixed.
                result = lost = EXCEPTION
        finally:
            # Take the lock, because lines that are still being handled may begin cells.
            await self._lock.run(lambda: defer.ensureDeferred(self._end_steps(lost)))
        # The connection may also be lost between two commands.
        return RETRY if self.build.conn is None else result

    async def _end_steps(self, lost: int | None) -> None:
        for step in self._steps.values():
            await step.end(RETRY if self.build.conn is None else lost)

    # events

    async def _take(self, text: str) -> None:
        await self._lock.run(lambda: defer.ensureDeferred(self._take_lines(text)))

    async def _take_lines(self, text: str) -> None:
        for line in text.splitlines():
            if self.build.conn is None:
                return  # the repeated build shows them
            try:
                await self._on(read_event(line))
            except (ValueError, KeyError, TypeError) as error:
                await self._odd_line(line, error)

    async def _odd_line(self, line: str, error: Exception) -> None:
        self._odd += 1
        if self._odd <= _ODD_LINES:
            await self._stdio.addStderr(f"buildbot: not an event ({error}): {harmless(line[:500])}\n")
        elif self._odd == _ODD_LINES + 1:
            await self._stdio.addStderr("buildbot: further lines that are not events are left out\n")

    async def _on(self, event: Entry) -> None:
        kind = event["event"]
        if kind == "planned":
            self._planned = int(event.get("tests", 0))
        elif kind == "package" and event.get("state") != "installed":
            self._verdict = harmless(f"{event.get('package')}: {event.get('state')}")
        elif kind == "cell":
            await self._on_cell(event)
        elif kind == "finished":
            await self._on_test(event["cell"], event["test"], whole="file" not in event)
        self.updateSummary()

    async def _on_cell(self, event: Entry) -> None:
        step = await self._step(str(event["cell"]), int(event["tests"]), self._time(event))
        if event["state"] == "finished":
            await step.finish()

    async def _on_test(self, cell: str, entry: Entry, *, whole: bool) -> None:
        step = await self._step(cell)
        await step.add(entry, whole=whole)
        self._finished += 1
        self._wrong += fails(entry)
        self._verdict = f"{self._finished} of {counted(self._planned, 'test')}"
        self._verdict += f", {self._wrong} not as expected" if self._wrong else ""

    async def _step(self, name: str, tests: int = 0, at: int | None = None) -> CellStep:
        if name not in self._steps:
            self._steps[name] = CellStep(self, CellOutcomes(name, tests))
            await self._steps[name].start(at)
        return self._steps[name]

    def _time(self, event: Entry) -> int:
        """Return the time of an event: a worker sends lines only every 5 s. Do not trust a wrong clock of the worker."""
        now = self.master.reactor.seconds()
        return int(min(max(datetime.fromisoformat(str(event["time"])).timestamp(), self._began), now))

    # results

    async def _take_results(self, result: int) -> BuildVerdict | None:
        """Read the results document, which decides. Return None if there is none; then the events decide."""
        data = await worker_files.read(self, self._file, _MOST_RESULTS)
        if data is None:
            await self._stdio.addStderr("buildbot: the run has written no results\n")
            return None
        try:
            document = read_results(data.decode("utf-8", "replace"))
        except ValueError as error:
            await self._stdio.addStderr(f"buildbot: {self._file} cannot be read: {error}\n")
            return None
        for entry in document["tests"]:
            await (await self._step(TestId.parse(entry["id"]).row)).complete(entry)
        await self._show_causes(document)
        await self._keep("results", gzip.compress(data, 6), self.addURL, "results.json.gz")
        verdict = await self._compare(document, result)
        await self._fetch_files(document)
        return verdict

    async def _show_causes(self, document: Entry) -> None:
        """Add a log of this step, which is above all cells, with one test of each of the first causes in full."""
        entries = {entry["id"]: entry for entry in document["tests"]}
        texts = [cause_text(cause, entries[cause["example"]]) for cause in document["causes"][:_CAUSES]]
        if len(document["causes"]) > _CAUSES:
            texts.append(f"… and {len(document['causes']) - _CAUSES} more causes\n")
        if texts:
            await self.addCompleteLog("causes", "\n\n".join(texts))

    async def _compare(self, document: Entry, result: int) -> BuildVerdict:
        about = {"command": list(self.command), "branch": self.getProperty("branch")}
        verdict = judge(document, await self._failed_before(about))
        for name, value in verdict.properties.items():
            self.setProperty(name, value, self.name)
        self._verdict, self._news = verdict.counts, verdict.text
        if result != RETRY:
            # A repeated build compares with the same earlier build as this one.
            state = json.dumps({**about, "failing": verdict.known}).encode()
            await self.master.data.updates.setBuildData(self.build.buildid, _STATE, state, self.name)
        return verdict

    async def _failed_before(self, about: Entry) -> list[str] | None:
        """Return the failures of this builder's last build with results, with the same command and branch."""
        builder, number = await self.build.getBuilderId(), self.build.number
        get = self.master.data.get
        builds = await get(
            ("builders", builder, "builds"),
            filters=[resultspec.Filter("number", "lt", [number]), resultspec.Filter("complete", "eq", [True])],
            order=["-number"],
            limit=_BACK,
        )
        for build in builds:
            kept = await get(("builds", build["buildid"], "data", _STATE, "value"))
            state = json.loads(kept["raw"]) if kept else {}
            if state and about == {"command": state["command"], "branch": state.get("branch", about["branch"])}:
                return list(state["failing"])
        return None

    async def _fetch_files(self, document: Entry) -> None:
        """Keep the files of the first failures, and show their pictures."""
        failed = [entry for entry in document["tests"] if entry.get("kept")]
        for number, entry in enumerate(failed[:_FETCHED], 1):
            archive = await worker_files.read_folder(self, entry["kept"], _MOST_FILES)
            if archive is None:
                continue
            step = self._steps[TestId.parse(entry["id"]).row]
            name = data_name(number, entry)
            await self._keep(name, archive, step.add_link, f"{test_name(entry)}: files (tar.gz)")
            if maps := worker_files.members(archive, ".svg", _MOST_PICTURES):
                await step.add_page(f"{test_name(entry)}: error map", pictures(maps))


class MatrixJob(_MatrixStep):
    """Run a verb of ``matrix``; show its reports."""

    async def _run(self) -> int:
        lines: list[str] = []

        async def take(text: str) -> None:
            lines.extend(text.splitlines())
            await self._stdio.addStdout(text)

        code = await self._call(self.command, take)
        if self.stopped:
            return int(self.build.stop_result)
        reports = [found[1] for line in lines if (found := _REPORT.fullmatch(line))]
        headings = []
        for number, path in enumerate(reports, 1):
            data = await worker_files.read(self, path, _MOST_PICTURES)
            if data is not None:
                text = data.decode("utf-8", "replace")
                headings.append(_heading(text))
                await self._show(text, f" {number}" if len(reports) > 1 else "")
        self._verdict = self._conclusion(headings, lines) or f"no report; exit code {code}"
        return {0: SUCCESS, 3: EXCEPTION}.get(-1 if code is None else code, result_of(code))

    def _conclusion(self, _headings: Sequence[str], lines: Sequence[str]) -> str:
        """Return what the summary says: the last line."""
        return next((harmless(line) for line in reversed(lines) if line.strip()), "")

    async def _show(self, report: str, number: str) -> None:
        await self.addCompleteLog(f"report{number}.md", harmless(report))
        # The master makes the page from text, so that a worker cannot insert HTML.
        await self.addHTMLLog(f"report{number}", framed(page(report)))


def _heading(report: str) -> str:
    """Return the first line of Markdown as plain text."""
    first = report.partition("\n")[0].removeprefix("# ")
    return harmless(re.sub(r"\\(.)", r"\1", first))


class MatrixBisect(MatrixJob):
    """Run ``matrix bisect``; show its report, whose heading is the summary."""

    name = "matrix bisect"

    def _conclusion(self, headings: Sequence[str], _lines: Sequence[str]) -> str:
        return "; ".join(headings)
