"""Collect what this machine keeps of failing tests: IR after each step, census, logs, commands, error maps, reports."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mlir_matrix.base.paths import Home
from mlir_matrix.base.text import harmless
from mlir_matrix.execute.action_cache import ActionCache, LostBlob
from mlir_matrix.history.sides import HistorySide
from mlir_matrix.history.today import Series
from mlir_matrix.results.documents import TestEntry
from mlir_matrix.site.documents import SiteEvidence, SiteSeries, SiteSide, SiteStage
from mlir_matrix.site.publish import Publication

#: The most tests that have evidence.
MOST_TESTS = 300
#: The most bytes of a text, of an entry or picture, and of all IR.
_LONGEST, _LARGEST, _MOST_IR = 1 << 20, 4 << 20, 100 << 20
#: The most reports of a test, the newest ones.
_MOST_REPORTS = 5
#: Texts of a failure's folder, by the key of the side.
_TEXTS = {"diagnostics": "diagnostics.txt", "log": "log.txt", "commands": "commands.sh"}
_PICTURE = re.compile(r"error-(.+)\.svg")
_REDUCED = re.compile(r"^Reduced from test `+ ?(.+?) ?`+\.", re.MULTILINE)
_ENTRY = TypeAdapter[TestEntry](TestEntry)


def evidence_of(
    sides: Mapping[str, Sequence[HistorySide]], series: Sequence[SiteSeries], home: Home, site: Publication
) -> dict[str, SiteEvidence]:
    """Return the evidence of failing tests by test, and add its IR and pictures to a site.

    What the published site has stays, although this machine has removed it since.
    """
    texts = _Texts(ActionCache(home.actions), site)
    folders = _Failures(home.state / "failures")
    reports = _Reports(home.state)
    found: dict[str, SiteEvidence] = {}
    nothing: SiteEvidence = {"test": "", "sides": [], "reports": []}
    published: dict[str, SiteEvidence] = {test: site.published(f"evidence/{test}") or nothing for test in sides}
    for before in published.values():
        texts.known |= {stage["digest"]: stage["bytes"] for side in before["sides"] for stage in side["stages"]}
    for test, of_test in sides.items():
        before, documents = published[test], []
        for side in of_test:
            document: SiteSide = {
                "role": side.role, "series": side.series, "run": side.run, "started": side.started,
                "stages": [texts.stage(*level) for level in side.levels],
            }  # fmt: skip
            # Other machines keep their own files.
            if side.role == "bad" and side.host == os.uname().nodename:
                document |= folders.files(test, side, series[side.series]["pins"], site)
            documents.append(_with_published(document, before["sides"], site))
        of_before = [(title, text) for title, text in before["reports"]]
        found[test] = {"test": test, "sides": documents, "reports": reports.of(test) or of_before}
    return found


def _with_published(side: SiteSide, before: Sequence[SiteSide], site: Publication) -> SiteSide:
    """Return a side with the files that the published site has of it, if there are none now."""
    same = [each for each in before if (each["role"], each["run"]) == (side["role"], side["run"])]
    if "entry" in side or not same:
        return side
    kept: Any = {key: same[0].get(key) for key in ("entry", *_TEXTS) if key in same[0]}
    pictures = [(name, path) for name, path in same[0].get("pictures", ()) if site.keep(path)]
    if pictures:
        kept["pictures"] = pictures
    return {**side, **kept}


class _Texts:
    """The IR that the action cache has. Each text is one document, however many tests share it."""

    def __init__(self, cache: ActionCache, site: Publication) -> None:
        self._cache, self._site = cache, site
        #: Bytes of the IR of the published site, by digest.
        self.known: dict[str, int] = {}
        self._stages: dict[str, tuple[int, bool]] = {}
        self._left = _MOST_IR

    def stage(self, step: str, digest: str) -> SiteStage:
        if digest not in self._stages:
            self._stages[digest] = self._add(digest)
        size, has_text = self._stages[digest]
        stage: SiteStage = {"step": step, "digest": digest, "bytes": size}
        if has_text:
            stage["document"] = f"ir/{digest}"
        return stage

    def _add(self, digest: str) -> tuple[int, bool]:
        """Add the text of a digest to the site; return its size, 0 if that is unknown, and whether the site has it."""
        name = f"ir/{digest}"
        if digest in self.known and self._site.keep(name):
            return self.known[digest], True
        try:
            data = self._cache.read_blob(digest)
        except (LostBlob, OSError):
            return 0, False
        text = _text(data)
        if text is None or len(text) > self._left:
            return len(data), False
        self._left -= len(text)
        self._site.put(name, text)
        return len(data), True


def _text(data: bytes) -> str | None:
    """Return the beginning of a text, with a note where it is cut; None if it is no text."""
    cut = len(data) - _LONGEST
    try:
        # The last character may be cut, too.
        text = data[:_LONGEST].decode(errors="ignore" if cut > 0 else "strict")
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    return f"{text}\n… {cut:,} more bytes are not shown\n" if cut > 0 else text


class _Failures:
    """The folders of failures that this machine keeps, those of the newest run first."""

    def __init__(self, folder: Path) -> None:
        with suppress(OSError):
            self._runs = sorted(folder.iterdir(), reverse=True)
            return
        self._runs = []

    def files(self, test: str, side: HistorySide, pins: str, site: Publication) -> Any:
        """Return what the newest folder has of a failure with this outcome and these pins: keys of a ``SiteSide``.

        Return nothing without such a folder.
        """
        for folder in _below(self._runs, test):
            entry = _entry(folder / "result.json")
            if (
                entry is None
                or entry["outcome"] != side.outcome
                or Series.of(side.host, entry.get("repeat", "")).pins != pins
            ):
                continue
            # The text of its own is complete.
            entry.pop("diagnostics", None)
            found: dict[str, Any] = {"entry": entry}
            for key, name in _TEXTS.items():
                data = _read(folder / name)
                if data is not None:
                    found[key] = harmless(_text(data) or "")
            pictures = []
            for file in sorted(folder.glob("error-*.svg")):
                named, data = _PICTURE.fullmatch(file.name), _read(file)
                if named and data is not None and len(data) <= _LARGEST:
                    pictures.append((named[1], site.put_file(f"picture/{test}/{side.run}/{named[1]}", data, ".svg")))
            if pictures:
                found["pictures"] = pictures
            return found
        return {}


class _Reports:
    """The reports of bisections and reductions that this machine keeps, the newest first."""

    def __init__(self, state: Path) -> None:
        self._bisections = sorted((state / "bisect").glob("*"), reverse=True)
        self._reductions: dict[str, tuple[str, str]] = {}
        for file in sorted((state / "reduce").glob("*/report.md")):
            text = _report(file)
            # The name of the folder is not the test, but the report names it.
            named = _REDUCED.search(text)
            if named:
                self._reductions[named[1]] = ("matrix reduce", text)

    def of(self, test: str) -> list[tuple[str, str]]:
        """Return titles and texts of the reports of a test."""
        texts = (
            (folder.parents[test.count("/")].name, _report(folder / "report.md"))
            for folder in _below(self._bisections, test)
        )
        found = [(f"matrix bisect, {name}", text) for name, text in texts if text]
        reduced = self._reductions.get(test)
        return [*([reduced] if reduced else []), *found[:_MOST_REPORTS]]


def _report(file: Path) -> str:
    data = _read(file)
    return harmless(_text(data) or "") if data is not None else ""


def _below(folders: Sequence[Path], test: str) -> Iterator[Path]:
    """Yield the folders of a test. A name from another machine must not lead elsewhere."""
    if "\0" not in test and not {"", ".", ".."}.intersection(test.split("/")):
        yield from (folder / test for folder in folders)


def _entry(file: Path) -> TestEntry | None:
    data = _read(file)
    if data is None or len(data) > _LARGEST:
        return None
    try:
        return _ENTRY.validate_python(json.loads(data))
    except (ValueError, RecursionError, ValidationError):
        # Another version wrote it, or the disk was full.
        return None


def _read(file: Path) -> bytes | None:
    try:
        with open(file, "rb") as opened:
            return opened.read(_LARGEST + 1)
    except OSError:
        return None
