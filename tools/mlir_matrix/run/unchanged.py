"""Keep the results of runs, and return them while nothing that they depend on has changed.

An unchanged run finds every action in the cache. It spends most of its time on finding that out: it loads and checks the catalog,
plans thousands of actions, hashes their inputs and reads their results. So this module keeps the results with fingerprints of

- all files of the catalogs, and the names of the folders beside them;
- the program's own code, the interpreter with the packages it has, and the CPU;
- the files of the action cache that such a run reads or looks for.

The same command line returns these results while all fingerprints are equal. If one differs, or the file of the results is
missing or damaged, the tests run. Results are kept only if all outcomes are as expected, and if no environment depends on programs
on PATH.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.digest import digest_bytes, digest_value
from mlir_matrix.base.fingerprint import Fingerprint, machine_identity
from mlir_matrix.base.paths import find_home, launcher, repository
from mlir_matrix.execute.use_log import add_uses, is_of_today
from mlir_matrix.plan.request import FAILED, ExecutorOptions, Request
from mlir_matrix.results.results import Run, TestResult

if TYPE_CHECKING:
    from mlir_matrix.plan.documents import Selection
    from mlir_matrix.plan.graph import Graph

#: Folders of a catalog that a run may read; kernels are linked with the driver.
FOLDERS = ("matrix", "recipes", "toolchains", "containers", "golden", "tools/driver")
#: Command lines whose results are kept.
_MOST = 16
_PACKAGE = str(Path(__file__).resolve().parents[1])


@dataclass(frozen=True, kw_only=True)
class KeptRun:
    """A run, and the pins of its command line."""

    run: Run
    pins: Mapping[str, str]
    #: What selected tests beside suites and globs, and lines for the user about the tests left out.
    selection: Selection | None = None
    left_out: Sequence[str] = ()
    #: The identifier of the run in the history; empty if it is not recorded.
    recorded: str = ""


class UnchangedRuns:
    """Finds and keeps the results of one command line."""

    def __init__(self, request: Request) -> None:
        home = find_home(cache_dir=request.cache_dir)
        self._roots = [os.path.abspath(root) for root in (repository(), *request.catalogs)]
        self._cache = str(home.actions)
        self._folder = f"{self._cache}/unchanged"
        # ascii(), because names of files and arguments need not be UTF-8.
        # Results name the command that repeats each of them.
        words = ascii([sys.executable, launcher(), str(home.cache), self._roots, request.words()])
        self._file = f"{self._folder}/{digest_value(words)}.json"
        self._sources = Fingerprint()
        self._state = ""
        # Other executors use programs of this machine, --repeat wants new results, and --keep the files of passing tests.
        local = request.executor == ExecutorOptions(devices=request.executor.devices)
        if local and request.selection.repeats and not request.times and request.keep == FAILED:
            with contextlib.suppress(OSError):
                self._add_sources(self._sources)
                self._state = self._sources.digest()

    def _add_sources(self, sources: Fingerprint) -> None:
        sources.add_value([list(map(os.path.realpath, self._roots)), machine_identity()])
        sources.add_folder(_PACKAGE)
        for root in self._roots:
            sources.add_names(root)
            for name in FOLDERS:
                sources.add_folder(f"{root}/{name}")

    def _is_as_it_was(self) -> bool:
        """Return whether nothing has changed since this run began. Raise OSError."""
        now = Fingerprint()
        self._add_sources(now)
        return now.digest() == self._state

    def find(self) -> KeptRun | None:
        """Return the results of an unchanged run, or None."""
        try:
            if not self._state:
                return None
            with open(self._file, "rb") as file:
                text, _, check = file.read().rpartition(b"\n")
            if check != self._check(text):
                return None
            kept = json.loads(text)
            if kept["sources"] != self._state or kept["cached"] != self._of_cache(kept["files"]).digest():
                return None
            self._note_use(kept["files"])
            run = Run(results=[TestResult(**each) for each in kept["results"]])
            return KeptRun(run=run, **{key: kept[key] for key in ("pins", "selection", "left_out", "recorded")})
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def keep(self, report: KeptRun, graph: Graph) -> None:
        """Keep the results of a run if the next run gives the same. Best effort: a cache may be read-only."""
        run = report.run
        known = not (run.executed or run.interrupted) and all(map(_is_lasting, run.results))
        covered = all(_is_below(path) for action in graph.actions.values() for path in action.files)
        if not (self._state and known and covered) or run.relied is None:
            return
        results = [each.to_fields() for each in run.results]
        files = [file.removeprefix(f"{self._cache}/") for file in run.relied]
        with contextlib.suppress(OSError, ValueError):
            cached = self._of_cache(files)
            if self._sources.is_settled() and cached.is_settled(self._sources) and self._is_as_it_was():
                entry: dict[str, Any] = {"sources": self._state, "cached": cached.digest(), "files": files}
                entry |= {"pins": dict(report.pins), "selection": report.selection, "left_out": report.left_out}
                entry["recorded"] = report.recorded
                text = json.dumps({**entry, "results": results}, separators=(",", ":")).encode()
                if json.loads(text)["results"] == results:
                    self._write(text + b"\n" + self._check(text))

    def _note_use(self, files: Sequence[str]) -> None:
        """Record once a day that these files are used, without touching them."""
        with contextlib.suppress(OSError):
            if not is_of_today(self._file):
                results = (file for file in files if file.startswith("results-"))
                add_uses(f"{self._cache}/uses", map(os.path.basename, results))
                os.utime(self._file)

    def _of_cache(self, files: Sequence[str]) -> Fingerprint:
        found = Fingerprint()
        found.add_files(os.path.join(self._cache, file) for file in files)
        return found

    def _check(self, text: bytes) -> bytes:
        """Return the line below an entry: the entry is whole, and belongs to this command line."""
        return digest_bytes(os.path.basename(self._file).encode() + b"\n" + text).encode()

    def _write(self, data: bytes) -> None:
        os.makedirs(self._folder, exist_ok=True)
        scratch = f"{self._file}.{os.getpid()}.new"
        try:
            with open(scratch, "wb") as file:
                file.write(data)
            os.replace(scratch, self._file)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(scratch)
        by_age = sorted(os.scandir(self._folder), key=lambda entry: entry.stat().st_mtime_ns)
        for entry in by_age[:-_MOST]:
            os.unlink(entry.path)


def _is_lasting(result: TestResult) -> bool:
    """Return whether a result is what an unchanged run gives again.

    What is skipped before anything is planned is known by granted devices and the CPU; an environment may become available.
    """
    skipped_unplanned = result.outcome == Outcome.SKIPPED and not result.stage
    return result.expected and (result.cached or result.outcome == Outcome.UNSUPPORTED or skipped_unplanned)


def _is_below(path: str) -> bool:
    return path.startswith(tuple(f"{folder}/" for folder in FOLDERS))
