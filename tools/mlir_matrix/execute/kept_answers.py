"""Keep the answers of commands, and return them while nothing that they depend on has changed.

A command whose actions are all in the cache spends most of its time on finding that out: it loads and checks the catalog, plans
actions, hashes their inputs and reads their results. So this module keeps answers with fingerprints of

- all files of the catalogs, and the names of the folders beside them;
- the program's own code, the interpreter with the packages it has, and the CPU;
- the files of the action cache that such a command reads or looks for.

The same command line returns its answer while all fingerprints are equal. If one differs, or the file of the answer is missing or
damaged, there is no answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.fingerprint import Fingerprint, fingerprint_of, is_covered
from mlir_matrix.base.kept_file import KeptFile
from mlir_matrix.base.paths import Home, launcher
from mlir_matrix.execute.use_log import add_uses, is_of_today

if TYPE_CHECKING:
    from mlir_matrix.plan.graph import Graph

#: The folder of kept answers in an action cache.
FOLDER = "unchanged"
#: Command lines whose answers are kept.
_MOST = 32


def covers(graph: Graph) -> bool:
    """Return whether the fingerprints cover the files of the catalog that actions read; a corpus may have others."""
    return all(is_covered(path) for action in graph.actions.values() for path in action.files)


class KeptAnswers:
    """Finds and keeps the answer of one command line."""

    def __init__(self, roots: Sequence[Path], home: Home, words: Sequence[object], *, usable: bool = True) -> None:
        """``words``: all that the answer depends on besides files. Without ``usable``, nothing is found or kept."""
        self._roots = list(map(os.path.abspath, roots))
        self._cache = str(home.actions)
        # ascii(), because names of files and arguments need not be UTF-8.
        # Results name the command that repeats each of them.
        text = ascii([sys.executable, launcher(), str(home.cache), self._roots, words])
        self._file = KeptFile(f"{self._cache}/{FOLDER}", f"{digest_value(text)}.json", _MOST)
        self._sources = Fingerprint()
        self._state = ""
        if usable:
            with contextlib.suppress(OSError):
                self._sources = fingerprint_of(self._roots)
                self._state = self._sources.digest()

    def find(self) -> dict[str, Any] | None:
        """Return the answer if it is kept and nothing has changed, or None."""
        try:
            if not self._state:
                return None
            kept = json.loads(self._file.read())
            if kept["sources"] != self._state or kept["cached"] != self._of_cache(kept["files"]).digest():
                return None
            self._note_use(kept["files"])
            answer: dict[str, Any] = kept["answer"]
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return answer

    def keep(self, answer: Mapping[str, Any], relied: Iterable[str]) -> None:
        """Keep an answer that JSON can hold. Best effort: a cache may be read-only.

        ``relied``: the files of the action cache that the answer depends on.
        """
        if not self._state:
            return
        files = [file.removeprefix(f"{self._cache}/") for file in relied]
        with contextlib.suppress(OSError, ValueError):
            cached = self._of_cache(files)
            is_settled = self._sources.is_settled() and cached.is_settled(self._sources)
            # Nothing may have changed since this command began.
            if is_settled and fingerprint_of(self._roots).digest() == self._state:
                entry = {"sources": self._state, "cached": cached.digest(), "files": files, "answer": answer}
                self._file.write(json.dumps(entry, separators=(",", ":")).encode())

    def _note_use(self, files: Sequence[str]) -> None:
        """Record once a day that these files are used, without touching them."""
        with contextlib.suppress(OSError):
            if not is_of_today(self._file.path):
                results = (file for file in files if file.startswith("results-"))
                add_uses(f"{self._cache}/uses", map(os.path.basename, results))
                os.utime(self._file.path)

    def _of_cache(self, files: Sequence[str]) -> Fingerprint:
        found = Fingerprint()
        found.add_files(os.path.join(self._cache, file) for file in files)
        return found
