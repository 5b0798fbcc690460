"""What leaves the action cache, and that a process finds all that it has looked up."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.paths import Home
from mlir_matrix.base.text import size_in_bytes
from mlir_matrix.execute import eviction
from mlir_matrix.execute.action_cache import ActionCache, Result
from mlir_matrix.execute.eviction import CacheEntry, Evicted, cache_limit, choose, evict, forget_results, trim
from mlir_matrix.execute.use_log import add_uses, use_log

DAY = 86_400
BLOBS = st.sampled_from("abcdef")
ENTRIES = st.lists(
    st.builds(
        lambda number, size, used, blobs: CacheEntry(path=f"r/{number:064}", size=size, used=used, blobs=tuple(blobs)),
        number=st.integers(0, 10**9).map(lambda number: number * 10**48),
        size=st.integers(0, 9),
        used=st.integers(0, 5),
        blobs=st.sets(BLOBS, max_size=3),
    ),
    unique_by=lambda entry: entry.key,
    max_size=12,
)


@given(
    entries=ENTRIES,
    sizes=st.dictionaries(BLOBS, st.integers(0, 9)),
    max_bytes=st.integers(0, 120),
    since=st.integers(0, 6),
    data=st.data(),
)
def test_eviction_chooses_the_least_recently_used(
    entries: list[CacheEntry], sizes: dict[str, int], max_bytes: int, since: int, data: st.DataObject
) -> None:
    held = data.draw(st.sets(st.sampled_from([entry.key for entry in entries]))) if entries else set()

    def total(kept: list[CacheEntry]) -> int:
        blobs = {digest for entry in kept for digest in entry.blobs}
        return sum(entry.size for entry in kept) + sum(sizes.get(digest, 0) for digest in blobs)

    gone = choose(entries, sizes, max_bytes=max_bytes, unused_since=since, in_use=held)
    kept = [entry for entry in entries if entry not in gone]
    free = [entry for entry in kept if entry.key not in held]
    assert not held & {entry.key for entry in gone}
    assert all(entry.used >= since for entry in free)
    # Only results in use may be more than the limit.
    assert not free or total(kept) <= max_bytes
    # Least recently used first.
    assert not gone or all(entry.used >= max(each.used for each in gone) for entry in free)
    # Not more than needed: the last used of those that are not too old does not fit.
    fitting = [entry for entry in gone if entry.used >= since]
    if fitting:
        assert total([*kept, fitting[0]]) > max_bytes
    assert choose(kept, sizes, max_bytes=max_bytes, unused_since=since, in_use=held) == []


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(cache=tmp_path, state=tmp_path / "state", actions=tmp_path / "actions")


@pytest.fixture
def store(home: Home) -> Iterator[ActionCache]:
    """A cache, as a process has it open; the process ends with the test."""
    made = ActionCache(home.actions)
    made.prepare()
    yield made
    end_process(home)


def end_process(home: Home) -> None:
    """Release what a process that ends releases; return when the clock of files has advanced, some milliseconds later."""
    use_log(str(home.actions / "uses")).close()
    clock = home.cache / "clock"
    clock.touch()
    before = clock.stat().st_mtime_ns
    while clock.stat().st_mtime_ns == before:
        clock.touch()


def key_of(name: str) -> str:
    return digest_bytes(name.encode())


def blob(home: Home, store: ActionCache, data: bytes) -> str:
    (home.cache / "file").write_bytes(data)
    return store.take_file(str(home.cache / "file"))


def add(home: Home, store: ActionCache, name: str, *outputs: bytes, days: int = 0) -> str:
    """Add a result that was made some days ago."""
    key = key_of(name)
    digests = {str(number): blob(home, store, data) for number, data in enumerate(outputs)}
    store.keep(key, Result(outcome={"outcome": "ok"}, outputs=digests))
    age(Path(store.results) / key[:2] / key, days)
    return key


def age(path: Path, days: int) -> None:
    os.utime(path, (time.time() - days * DAY, time.time() - days * DAY))


def found(home: Home, *keys: str) -> list[bool]:
    """Whether another process would find results, without recording that."""
    other = ActionCache(home.actions)
    there = [other.find(key) is not None for key in keys]
    end_process(home)
    for log in (home.actions / "uses").glob("process-*"):
        log.unlink()
    return there


def counts(done: Evicted) -> tuple[int, int, int, int]:
    return done.results, done.files, done.results_left, done.files_left


def test_least_recently_used_results_go_with_their_blobs(home: Home, store: ActionCache) -> None:
    keys = [add(home, store, "a", b"x" * 5000, b"both", days=9), add(home, store, "b", b"y" * 5000, b"both", days=5)]
    keys += [add(home, store, "c", b"z" * 5000, days=7)]
    end_process(home)
    # An unchanged run has used the oldest.
    add_uses(str(home.actions / "uses"), [keys[0]])
    planned = evict(home, max_bytes=12_000, dry_run=True)
    assert found(home, *keys) == [True, True, True]
    assert evict(home, max_bytes=12_000) == planned
    assert counts(planned) == (1, 1, 2, 3)
    assert found(home, *keys) == [True, True, False]
    files = sum(
        path.stat().st_size for folder in ("blobs", "results-v2") for path in (home.actions / folder).glob("*/*")
    )
    assert planned.bytes_left == files == int((home.actions / "size").read_text())
    assert evict(home, max_bytes=12_000).freed == 0
    assert counts(evict(home, max_bytes=10**9, unused_since=time.time() - 3 * DAY)) == (1, 1, 1, 2)
    assert found(home, *keys) == [True, False, False]


def test_a_process_finds_what_it_has_looked_up(home: Home, store: ActionCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what it looks up between the choice of results and their removal."""
    early, late, other = (add(home, store, name, name.encode(), days=9) for name in ("early", "late", "other"))
    end_process(home)
    store = ActionCache(home.actions)
    assert store.find(early)

    def look_up(*arguments: object, **more: object) -> list[CacheEntry]:
        assert store.find(late)
        return choose(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(eviction, "choose", look_up)
    done = evict(home, max_bytes=0)
    assert counts(done) == (2, 1, 1, 2)
    assert done.in_use == 1
    assert store.find(early)
    assert store.read_blob(digest_bytes(b"late")) == b"late"
    assert not store.has_blob(digest_bytes(b"other"))
    assert store.find(other) is None


def test_blobs_of_unfinished_results_stay_while_their_process_runs(home: Home, store: ActionCache) -> None:
    older = add(home, store, "older", b"older")
    end_process(home)
    store = ActionCache(home.actions)
    store.prepare()
    digest = blob(home, store, b"new")
    (Path(store.results) / "new-1").write_bytes(b"large")
    assert counts(evict(home, max_bytes=0)) == (1, 1, 0, 2)
    assert store.has_blob(digest)
    end_process(home)
    assert counts(evict(home, max_bytes=0)) == (0, 2, 0, 0)
    assert found(home, older) == [False]


def test_a_blob_that_was_made_again_stays(home: Home, store: ActionCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a process that began after the blobs were listed."""
    add(home, store, "a", b"same")
    end_process(home)

    def make_again(_home: Home) -> list[str]:
        add(home, ActionCache(home.actions), "b", b"same")
        return []

    monkeypatch.setattr(eviction, "dead_scratch", make_again)
    assert evict(home, max_bytes=0).results == 1
    assert found(home, key_of("a"), key_of("b")) == [False, True]


def test_damaged_results_and_those_of_other_versions(home: Home, store: ActionCache) -> None:
    add(home, store, "a", b"a")
    key = add(home, store, "b", b"b", days=3)
    (home.actions / "results-v1" / key[:2]).mkdir(parents=True)
    Path(store.results, key[:2], key).rename(home.actions / "results-v1" / key[:2] / key)
    damaged = Path(store.results) / "00" / ("0" * 64)
    damaged.write_bytes(b'{"outputs": 3}\n')
    age(damaged, 2)
    end_process(home)
    assert counts(evict(home, max_bytes=10**6)) == (0, 0, 3, 2)
    assert counts(evict(home, max_bytes=10**6, unused_since=time.time() - DAY)) == (2, 1, 1, 1)


def test_all_results_are_forgotten(home: Home, store: ActionCache) -> None:
    """Also those in use and of other versions, and what repeats them; blobs stay."""
    assert forget_results(home) == 0
    keys = [add(home, store, name, name.encode()) for name in "ab"]
    assert store.find(keys[0])
    older = home.actions / "results-v1" / "ab" / ("ab" * 32)
    answer = home.actions / "unchanged" / "x.json"
    for path in (older, answer, home.actions / "size"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")
    assert forget_results(home) == 3
    assert found(home, *keys) == [False, False]
    assert store.has_blob(digest_bytes(b"a"))
    assert not any(path.exists() for path in (older, answer, home.actions / "size"))
    assert trim(home) is None, "measured"


def test_what_is_no_file_goes_unless_it_is_a_folder(home: Home, store: ActionCache) -> None:
    for base in ("blobs", "results-v2"):
        (home.actions / base / "00" / ("0" * 64)).mkdir()
        os.mkfifo(home.actions / base / "11" / ("1" * 64))
        (home.actions / base / "22" / ("2" * 64)).symlink_to("nothing")
    end_process(home)
    assert counts(evict(home, max_bytes=0, unused_since=time.time() + DAY)) == (2, 2, 0, 0)
    left = {path.name for path in home.actions.glob("[br]*/*/*")}
    assert left == {"0" * 64}


def test_what_is_no_action_cache_is_left_alone(home: Home) -> None:
    assert evict(home, max_bytes=0) == Evicted()
    assert not home.actions.exists()
    (home.scratch / "mine").mkdir(parents=True)
    assert evict(home, max_bytes=0) == Evicted()
    assert (home.scratch / "mine").is_dir()


def test_folders_of_dead_runs_go(home: Home, store: ActionCache) -> None:
    for owner in (999_999_999, os.getpid()):
        (home.scratch / f"{owner}-1" / "in").mkdir(parents=True)
        (home.scratch / f"{owner}-1" / "in" / "x").write_bytes(b"12345")
    done = evict(home, max_bytes=0)
    assert (done.scratch, done.freed) == (1, 5)
    assert os.listdir(home.scratch) == [f"{os.getpid()}-1"]


KILLED = """
import os, sys
from pathlib import Path
from mlir_matrix.execute import eviction
from mlir_matrix.base.paths import Home
left = int(sys.argv[2])
def hook(event, arguments):
    global left
    if event in ("os.remove", "os.rename"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
sys.addaudithook(hook)
folder = Path(sys.argv[1])
eviction.evict(Home(cache=folder, state=folder, actions=folder / "actions"), max_bytes=1000)
"""


@pytest.mark.parametrize("steps", [0, 1, 3, 4, 6])
def test_a_killed_eviction_leaves_no_result_without_its_blobs(home: Home, store: ActionCache, steps: int) -> None:
    """Killed before one of its changes to the disk."""
    keys = [add(home, store, str(number), b"%d" % number * 100, days=number) for number in range(6)]
    end_process(home)
    command = [sys.executable, "-P", "-c", KILLED, str(home.cache), str(steps)]
    env = {**os.environ, "PYTHONPATH": str(Path(eviction.__file__).parents[2])}
    assert subprocess.run(command, env=env, check=False).returncode == -9
    for key in keys:
        path = Path(store.results) / key[:2] / key
        assert found(home, key) == [path.exists()]
    assert evict(home, max_bytes=1000).results_left == 3
    assert len(list((home.actions / "blobs").glob("*/*"))) == 3


def test_a_run_trims_what_is_over_the_limit(home: Home, store: ActionCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATRIX_CACHE_LIMIT", "10k")
    for number in range(4):
        add(home, store, str(number), b"%d" % number * 2000, days=number)
    store.record_growth()
    assert trim(home) is None, "measured"
    add(home, store, "last", b"l" * 3000, days=9)
    assert trim(home) is None, "not recorded yet"
    store.record_growth()
    store.record_growth()
    end_process(home)
    done = trim(home)
    assert done is not None
    assert (done.results, done.results_left) == (2, 3)
    assert trim(home) is None


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("500", 500), ("1.5k", 1500), ("500M", 500 * 10**6), ("10GB", 10**10), (" 2t", 2 * 10**12)],
)
def test_size_in_bytes(text: str, size: int) -> None:
    assert size_in_bytes(text) == size


@pytest.mark.parametrize("text", ["", "-1", "G", "10X", "1e3", "nan", "1 G", "٣", "9" * 13, "1.G", "\x1b[2J"])
def test_no_sizes(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"is not a size; expected bytes, or a number with K, M, G or T, e\.g\. 10G"):
        size_in_bytes(text)
    monkeypatch.setenv("MATRIX_CACHE_LIMIT", text or " ")
    with pytest.raises(UsageError, match="MATRIX_CACHE_LIMIT: "):
        cache_limit()
