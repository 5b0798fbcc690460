"""Show cells as steps. They are created in the database while another step runs: Buildbot runs one step at a time."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from html import escape

from buildbot.process.buildstep import BuildStep
from buildbot.util import identifiers

from mlir_matrix.base.names import TestId
from mlir_matrix.base.text import abridged, harmless
from mlir_matrix.buildbot.state import RETRY, CellOutcomes, Entry
from mlir_matrix.results.report.failure_text import failure_text, headline

#: Seconds between changes of the text of a running step.
_EVERY_S = 2.0
#: The most logs of a cell. One more log has all further failures.
_MOST_LOGS = 50


class CellStep:
    """A step that shows a cell: its text, its result, and a log for each test with an unexpected outcome."""

    def __init__(self, parent: BuildStep, cell: CellOutcomes) -> None:
        self._parent = parent
        self._data = parent.master.data.updates
        self.cell = cell
        self._id = 0
        self._said = ""
        self._at = 0.0
        self._result: int | None = None
        #: By test: the log that waits for the complete entry; None if the log is complete.
        self._logs: dict[str, int | None] = {}

    async def start(self, at: int | None) -> None:
        """Begin the step. ``at``: seconds since 1970; default: now."""
        build = self._parent.build
        name = build.setUniqueStepName(abridged(harmless(self.cell.name)))
        self._id, _, _ = await self._data.addStep(build.buildid, name)
        await self._data.startStep(self._id, started_at=at, locks_acquired=True)
        await self._say()

    async def add(self, entry: Entry, *, whole: bool) -> None:
        """Add a test, and begin its log if the outcome is unexpected. ``whole``: whether the entry is complete."""
        self.cell.add(entry)
        if not entry["expected"] and entry["id"] not in self._logs:
            await self._begin_log(entry, whole=whole)
        if not entry["expected"] or time.monotonic() - self._at > _EVERY_S:
            await self._say()

    async def complete(self, entry: Entry) -> None:
        """Add the complete entry from the results document."""
        self.cell.add(entry)
        if entry["expected"]:
            return
        if entry["id"] not in self._logs:
            await self._begin_log(entry, whole=True)
        elif (log := self._logs[entry["id"]]) is not None:
            await self._end_log(entry["id"], log, failure_text(entry))

    async def finish(self, result: int | None = None) -> None:
        """End the step with the result of its tests, or with a given one. A later result replaces an earlier one."""
        wanted = self.cell.result if result is None else result
        await self._say()
        if wanted != self._result:
            self._result = wanted
            await self._data.finishStep(self._id, wanted, False)

    async def end(self, lost: int | None) -> None:
        """End open logs and steps. ``lost``: the result of a cell that has not ended; None if all have."""
        for test, log in list(self._logs.items()):
            if log is not None:
                await self._end_log(test, log, "the run ended before the rest was read\n")
        if self._result is None:
            await self.finish(lost)
        elif lost != RETRY:
            await self.finish()

    async def add_page(self, name: str, html: str) -> None:
        """Add a log with an HTML page."""
        await self._write(await self._data.addLog(self._id, name, "h"), framed(html))

    async def add_link(self, name: str, url: str) -> None:
        await self._data.addStepURL(self._id, name, url)

    async def _say(self) -> None:
        self._at = time.monotonic()
        if (text := self.cell.text) != self._said:
            self._said = text
            await self._data.setStepStateString(self._id, text)

    async def _begin_log(self, entry: Entry, *, whole: bool) -> None:
        if len(self._logs) >= _MOST_LOGS:
            self._logs[entry["id"]] = None
            return
        log = await self._data.addLog(self._id, test_name(entry), "t")
        if whole:
            await self._end_log(entry["id"], log, failure_text(entry))
        else:
            self._logs[entry["id"]] = log
            await self._data.appendLog(log, f"{headline(entry)}\n\nAll of it follows when the run has ended.\n\n")

    async def _end_log(self, test: str, log: int, text: str) -> None:
        self._logs[test] = None
        await self._write(log, text)

    async def _write(self, log: int, text: str) -> None:
        await self._data.appendLog(log, text if text.endswith("\n") else f"{text}\n")
        await self._data.finishLog(log)


def framed(html: str) -> str:
    """Return the HTML of a page for a log. The page can run no script and cannot change its surroundings."""
    return f'<iframe sandbox="" style="width:100%;height:75vh;border:0" srcdoc="{escape(html)}"></iframe>\n'


def test_name(entry: Entry) -> str:
    """Return the name of a test within its step."""
    test = TestId.parse(entry["id"])
    return f"{test.pipeline}/{test.called}" if test.is_ir else test.called


def data_name(number: int, entry: Entry) -> str:
    """Return the name of the archive of a test's files, in the data of a build."""
    return f"files-{number}-{identifiers.forceIdentifier(30, test_name(entry))}"


def pictures(files: Mapping[str, bytes]) -> str:
    """Return a page with pictures. They are embedded as images, which cannot run scripts."""
    images = (
        f'<h1>{escape(name)}</h1><img alt="" src="data:image/svg+xml;base64,{base64.b64encode(data).decode()}">'
        for name, data in sorted(files.items())
    )
    return f"<!DOCTYPE html><style>h1 {{ font: 1rem sans-serif }} img {{ max-width: 100% }}</style>{''.join(images)}"
