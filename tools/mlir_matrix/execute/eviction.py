"""Evict results from an action cache: by age, then the least recently used ones; then the blobs that no result refers to.

Results are removed before their blobs, so a killed eviction leaves no result without its blobs. Beside running processes:

- A process writes the key of a result before it looks the result up. The eviction reads these keys after it has removed
  results, and keeps the blobs of all that a process may have found.
- It keeps all blobs made since the oldest running process began, because their results may not be written yet.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.files import AT_ONCE, Cancelled, locked, unwritable, write_text
from mlir_matrix.base.paths import Home
from mlir_matrix.base.plain_files import PLAIN
from mlir_matrix.base.text import counted, megabytes, size_in_bytes
from mlir_matrix.environments.scratch import dead_scratch
from mlir_matrix.execute.action_cache import read_bytes
from mlir_matrix.execute.kept_answers import FOLDER
from mlir_matrix.execute.use_log import prune_uses, read_uses, short

#: Bytes of the action cache above which a run evicts at its end.
LIMIT = 10_000_000_000
_VARIABLE = "MATRIX_CACHE_LIMIT"
_KEY = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """A result in an action cache."""

    path: str
    size: int
    #: The last use, in seconds since 1970.
    used: float
    #: The digests of its outputs.
    blobs: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return short(os.path.basename(self.path))


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    size: int
    #: Seconds since 1970.
    modified: float
    #: Nanoseconds since 1970. Renaming a file into the cache sets it.
    changed: int


@dataclass(frozen=True, kw_only=True)
class Evicted:
    """What an eviction removed, or would remove in a dry run, and what is left."""

    results: int = 0
    files: int = 0
    scratch: int = 0
    freed: int = 0
    results_left: int = 0
    files_left: int = 0
    bytes_left: int = 0
    #: How many of the results left are used by running processes.
    in_use: int = 0


def choose(
    entries: Iterable[CacheEntry],
    sizes: Mapping[str, int],
    *,
    max_bytes: int,
    unused_since: float = 0,
    in_use: Container[str] = frozenset(),
) -> list[CacheEntry]:
    """Return the results to evict, so that the others with their blobs have at most ``max_bytes``.

    ``sizes`` are those of blobs, by digest. All results go that were not used since ``unused_since``, then the least recently
    used. Results whose keys are ``in_use`` stay, even if they alone have more bytes.
    """
    evicted: list[CacheEntry] = []
    counted: set[str] = set()
    room = max_bytes
    for entry in sorted(entries, key=lambda entry: (entry.key not in in_use, -entry.used)):
        more = {*entry.blobs} - counted
        needed = entry.size + sum(sizes.get(digest, 0) for digest in more)
        if entry.key not in in_use and (evicted or needed > room or entry.used < unused_since):
            evicted.append(entry)
        else:
            counted |= more
            room -= needed
    return evicted


def evict(
    home: Home, *, max_bytes: int, unused_since: float = 0, dry_run: bool = False, cancelled: Event | None = None
) -> Evicted:
    """Evict results and unreferenced blobs, and remove scratch folders of dead processes.

    One eviction runs at a time: others wait until ``cancelled`` is set, and raise Cancelled.
    """
    if not (home.actions / "blobs").is_dir():
        return Evicted()
    with locked(home.actions / "gc-lock", cancelled):
        os.utime(home.actions / "gc-lock")
        began = (home.actions / "gc-lock").stat().st_mtime_ns
        return _evict(home, began, max_bytes, unused_since, dry_run=dry_run)


def _evict(home: Home, began: int, max_bytes: int, unused_since: float, *, dry_run: bool) -> Evicted:
    actions, log = str(home.actions), str(home.actions / "uses")
    uses = read_uses(log)
    entries = list(_results(actions, uses.last))
    blobs = {os.path.basename(blob.path): blob for blob in _files(f"{actions}/blobs")}
    temporary = list(_temporary(actions))
    sizes = {digest: blob.size for digest, blob in blobs.items()}
    gone = choose(entries, sizes, max_bytes=max_bytes, unused_since=unused_since, in_use=uses.in_use)
    if not dry_run:
        for entry in gone:
            Path(entry.path).unlink(missing_ok=True)
    uses = read_uses(log)
    removed = {entry.path for entry in gone}
    needed = {
        digest for entry in entries if entry.path not in removed or entry.key in uses.in_use for digest in entry.blobs
    }
    loose = [blob for digest, blob in blobs.items() if digest not in needed]
    loose = [file for file in (*loose, *temporary) if file.changed < min(began, uses.began)]
    scratch = [(folder, sum(_sizes(folder))) for folder in dead_scratch(home)]
    total = sum(entry.size for entry in entries) + sum(file.size for file in (*blobs.values(), *temporary))
    freed = sum(entry.size for entry in gone) + sum(file.size for file in loose)
    if not dry_run:
        for file in loose:
            # Another process may have replaced or removed it.
            with suppress(FileNotFoundError):
                if os.lstat(file.path).st_ctime_ns == file.changed:
                    os.unlink(file.path)
        for folder, _ in scratch:
            remove_folder(folder)
        prune_uses(log, {entry.key for entry in entries if entry.path not in removed})
        write_text(home.actions / "size", f"{total - freed}\n")
    return Evicted(
        results=len(gone),
        files=len(loose),
        scratch=len(scratch),
        freed=freed + sum(size for _, size in scratch),
        results_left=len(entries) - len(gone),
        files_left=len(blobs) + len(temporary) - len(loose),
        bytes_left=total - freed,
        in_use=sum(entry.key in uses.in_use for entry in entries if entry.path not in removed),
    )


def forget_results(home: Home) -> int:
    """Remove all results, and the answers of commands that repeat them; return the number of results.

    Blobs stay, because their digests are checked. Raise InfrastructureError.
    """
    if not (home.actions / "blobs").is_dir():
        return 0
    try:
        with locked(home.actions / "gc-lock"):
            results = [file for folder in home.actions.glob("results-v*") for file in _files(str(folder))]
            for file in results:
                Path(file.path).unlink(missing_ok=True)
            # The next run measures the cache again.
            (home.actions / "size").unlink(missing_ok=True)
            remove_folder(str(home.actions / FOLDER))
    except OSError as error:
        raise unwritable("cached results cannot be removed", error) from None
    return len(results)


def cache_limit() -> int:
    """Return the bytes above which a run evicts at its end. Raise UsageError."""
    text = os.environ.get(_VARIABLE, "")
    try:
        return size_in_bytes(text) if text else LIMIT
    except ValueError as error:
        raise UsageError(f"{_VARIABLE}: {error}") from None


def trim(home: Home) -> Evicted | None:
    """Evict down to four fifths of the limit if the cache is larger than the limit. Best effort: it may be read-only."""
    limit = cache_limit()
    with suppress(OSError, InfrastructureError, Cancelled):
        if _size(home.actions) > limit:
            return evict(home, max_bytes=limit // 5 * 4, cancelled=AT_ONCE)
    return None


def _size(actions: Path) -> int:
    """Return the bytes of a cache as recorded; measure them if they are not."""
    size = actions / "size"
    with suppress(FileNotFoundError, ValueError):
        return sum(map(int, size.read_bytes().split()))
    measured = sum(_sizes(str(actions)))
    write_text(size, f"{measured}\n")
    return measured


def _sizes(folder: str) -> Iterator[int]:
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                yield os.lstat(f"{root}/{name}").st_size


def _results(actions: str, last: Mapping[str, float]) -> Iterator[CacheEntry]:
    """Yield the results, also those of other versions of the program."""
    for folder in Path(actions).glob("results-v*"):
        for file in _files(str(folder)):
            used = max(file.modified, last.get(short(os.path.basename(file.path)), 0))
            yield CacheEntry(path=file.path, size=file.size, used=used, blobs=_outputs(file.path))


def _outputs(path: str) -> tuple[str, ...]:
    """Return the digests in a result; none if it is damaged."""
    try:
        outputs = json.loads(read_bytes(path, PLAIN).rpartition(b"\n")[0])["outputs"]
        return tuple(filter(_KEY.fullmatch, outputs.values()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ()


def _files(folder: str) -> Iterator[_File]:
    """Yield the files of a folder that are named by digests, each in the subfolder of its first two digits."""
    for shard in range(256):
        with suppress(FileNotFoundError), os.scandir(f"{folder}/{shard:02x}") as found:
            named = (entry for entry in found if _KEY.fullmatch(entry.name))
            yield from _of(entry for entry in named if not entry.is_dir(follow_symlinks=False))


def _temporary(actions: str) -> Iterator[_File]:
    """Yield files that were to become results or blobs."""
    for folder in Path(actions).glob("results-v*"):
        with os.scandir(folder) as found:
            yield from _of(entry for entry in found if entry.name.startswith("new-"))


def _of(entries: Iterable[os.DirEntry[str]]) -> Iterator[_File]:
    for entry in entries:
        with suppress(FileNotFoundError):
            found = entry.stat(follow_symlinks=False)
            yield _File(entry.path, found.st_size, found.st_mtime, found.st_ctime_ns)


def trim_cache(home: Home) -> tuple[str, str]:
    """Evict results if the action cache is larger than its limit.

    Return what was removed and, if the cache is still too large, why; each is a sentence or empty.
    """
    found = trim(home)
    if found is None:
        return "", ""
    removed = f"{counted(found.results, 'old result')} removed from the action cache, {megabytes(found.freed)}"
    if found.bytes_left <= cache_limit():
        return removed, ""
    limit = f"its limit of {megabytes(cache_limit())} (MATRIX_CACHE_LIMIT)"
    return removed, f"the action cache has {megabytes(found.bytes_left)}, more than {limit}: runs are using it"
