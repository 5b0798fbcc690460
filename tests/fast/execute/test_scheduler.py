"""The scheduler with workers that do as a test says: no process is started, and no time passes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.contract import WorkResponse
from mlir_matrix.actions.runtime.child import LOG_FILE, OUTCOME_FILE, failure
from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.events import Event, Note, Tick
from mlir_matrix.base.paths import Home, find_home
from mlir_matrix.environments import installer
from mlir_matrix.environments.fetch.workshop import Workshop
from mlir_matrix.environments.interpreter import Interpreter, own
from mlir_matrix.environments.lockfiles.debian import DebianRelease
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.execute import folders, queues, worker_pool
from mlir_matrix.execute import scheduler as module
from mlir_matrix.execute.action_cache import ActionCache, LostBlob
from mlir_matrix.execute.folders import empty_folder, fill_folder, make_folder
from mlir_matrix.execute.job import ActionDone, ActionStarted, Done, Job, Task
from mlir_matrix.execute.local_pool import LocalPool
from mlir_matrix.execute.locks import KeyLocks
from mlir_matrix.execute.scheduler import Scheduler
from mlir_matrix.execute.worker_pool import LostJob, PackageSupply, PoolContext, PoolFactory, WorkerPool
from mlir_matrix.execute.worker_process import WorkerHandle
from mlir_matrix.plan.graph import Graph, Produced
from mlir_matrix.plan.request import Limits
from support import debs

HERE = ResolvedEnvironment(name="here", interpreter=own(), packages=())
OTHER = ResolvedEnvironment(name="other", interpreter=own(), packages=(), foreign=True)
vars(OTHER)["digest"] = "another"
MACHINE = "the machine failed: no process for it"


@dataclass(kw_only=True)
class FakeWorker(WorkerHandle):
    """Answers when it is told to. Its descriptor is readable while it has something to say."""

    event: int = field(default_factory=lambda: os.eventfd(0))
    said: list[tuple[Job, WorkResponse]] = field(default_factory=list)
    alive: bool = True

    def fileno(self) -> int:
        return self.event

    def say(self, job: Job, *, more: bool = False, trouble: str = "") -> None:
        self.said.append((job, WorkResponse(request_id=0, more=more, trouble=trouble, usage={"wall_s": 1.0})))
        os.eventfd_write(self.event, 1)

    def receive(self) -> tuple[list[tuple[Any, WorkResponse]], bool]:
        os.eventfd_read(self.event)
        said, self.said = self.said, []
        for job, answer in said:
            if not answer.more:
                self.pending = {number: payload for number, payload in self.pending.items() if payload is not job}
        return said, self.alive

    def last_output(self) -> str:
        return "its last words"

    def kill(self) -> None:
        self.alive = False
        os.eventfd_write(self.event, 1)

    def stop(self) -> None:
        os.close(self.event)


class FakePool(WorkerPool[FakeWorker]):
    """Workers that end actions as a script says: each name has what becomes of its executions, in order; then all succeed.

    ``ok`` and ``ok=TEXT`` write an output. ``dies`` and ``never starts`` end the worker, ``hangs`` never answers, ``damaged``
    leaves no outcome, ``trouble`` is the machine's, and any other word is an outcome.
    """

    def __init__(self, context: PoolContext, script: Mapping[str, Sequence[str]], most_actions: int) -> None:
        super().__init__(context, PackageSupply(context.home, context.wake))
        self.most_actions = most_actions
        self._script = {name: [*words] for name, words in script.items()}
        self._workers: dict[str, FakeWorker] = {}
        self.sent: list[str] = []
        self.refused = 0
        self.started = 0
        self.released = 0
        self.cancelled: list[str] = []
        #: How many jobs ran when each was sent, itself included.
        self.running: list[int] = []

    def workers(self) -> Sequence[FakeWorker]:
        return [*self._workers.values()]

    def open_environments(self, waiting: Mapping[str, int]) -> Sequence[str]:
        return [*waiting]

    def send(self, job: Job, task: Task) -> None:
        names = [action.id.rpartition("-")[0] for action in job.actions]
        self.sent.append(names[0])
        words = self._script.get(names[0], [])
        if words and words[0] in ("refuses", "disk"):
            self.refused += 1
            kind = InfrastructureError if words.pop(0) == "refuses" else OSError
            raise kind("not today")
        job.folder = make_folder(self._context.scratch)
        try:
            fill_folder(job.folder, task.prepared, self._context.store, job.copies)
        except OSError:
            self.refused += 1
            remove_folder(job.folder)
            raise
        worker = self._worker(job.environment)
        worker.pending[len(self.sent)] = job
        worker.heard = time.monotonic()
        self.running.append(sum(len(each.pending) for each in self.workers()))
        self._perform(job)

    def proceed(self, job: Job, task: Task) -> None:
        empty_folder(job.folder)
        fill_folder(job.folder, task.prepared, self._context.store)
        pending = self._workers[job.environment.digest].pending
        number = next(number for number, payload in pending.items() if payload is job)
        self.sent[number - 1] += f" {task.action.id.rpartition('-')[0]}"
        self._perform(job)

    def cancel(self, job: Job) -> None:
        self.cancelled.append(job.actions[job.at].id.rpartition("-")[0])
        self._workers[job.environment.digest].say(job)

    def _worker(self, environment: ResolvedEnvironment) -> FakeWorker:
        worker = self._workers.get(environment.digest)
        if worker is None:
            self.started += 1
            worker = self._workers[environment.digest] = FakeWorker(environment=environment)
            self._context.selector.register(worker.fileno(), 1, worker)
        return worker

    def _perform(self, job: Job) -> None:
        """Execute the current action of a job."""
        worker, folder, name = (
            self._workers[job.environment.digest],
            job.folder,
            job.actions[job.at].id.rpartition("-")[0],
        )
        words = self._script.get(name, [])
        word, _, text = (words.pop(0) if words else "ok").partition("=")
        if word != "never starts":
            Path(folder, LOG_FILE).touch()
        if word in ("dies", "never starts"):
            worker.kill()
            return
        if word == "hangs":
            worker.heard = float("-inf")
            return
        if word == "ok":
            Path(folder, "out", "ir.mlir").write_text(f"{text or name} of {self._context.home.cache.name}")
            Path(folder, OUTCOME_FILE).write_text('{"outcome": "ok", "stage": "lower"}')
        elif word not in ("damaged", "trouble"):
            Path(folder, OUTCOME_FILE).write_text(json.dumps(failure("lower", word, f"{name}: {word}")))
        more = word == "ok" and job.at < len(job.actions) - 1
        worker.say(job, more=more, trouble=MACHINE if word == "trouble" else "")

    def release(self, job: Job) -> None:
        self.released += 1
        remove_folder(job.folder)

    def renew(self, environment: ResolvedEnvironment) -> None:
        if environment.digest in self._workers:
            self.remove_worker(self._workers[environment.digest])

    def remove_worker(self, worker: FakeWorker) -> tuple[str, list[LostJob]]:
        del self._workers[worker.environment.digest]
        return self._end(worker)

    def close(self) -> None:
        for worker in self.workers():
            worker.stop()


@dataclass
class Ran:
    """What became of a run: the outcome and reason of each action by its name, and what the pool and the listener got."""

    done: dict[str, Done]
    pool: FakePool | None
    events: list[Event]

    @property
    def ends(self) -> str:
        """The outcomes, as words; with ``*`` where the action was executed."""
        return " ".join(
            f"{name}:{done.result.outcome['outcome']}{'*' * done.executed}" for name, done in self.done.items()
        )

    def reason(self, name: str) -> str:
        return self.done[name].result.outcome["reason"]

    @property
    def sent(self) -> list[str]:
        return self.pool.sent if self.pool else []

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Note)]


class World:
    """Graphs of actions in one line, and runs that share a cache.

    ``b<a``: b reads the output of a. ``b'`` does the same as ``b``, and has its key where it reads equal outputs.
    """

    def __init__(self, folder: Path, actions: Path) -> None:
        self.folder = folder
        self.home = Home(cache=folder, state=folder, actions=actions)
        self.store = ActionCache(self.home.actions)
        self.environments: dict[str, ResolvedEnvironment | UnavailableEnvironment] = {"here": HERE}
        self.tools: dict[str, str] = {}
        self.places: dict[str, str] = {}
        self.params: dict[str, dict[str, str]] = {}
        self.pool: FakePool | None = None

    def graph(self, text: str) -> tuple[Graph, dict[str, str]]:
        graph, names = Graph(), dict[str, str]()
        for word in text.split():
            name, _, sources = word.partition("<")
            made_by = [names[source] for source in sources.split(",") if source]
            inputs = {f"in{number}": Produced(source, "ir") for number, source in enumerate(made_by)}
            names[name] = graph.add(
                name,
                tool=self.tools.get(name, "passes"),
                stage="lower",
                environment=self.places.get(name, "here"),
                params={"passes": name.rstrip("'"), "test": self.folder.name, **self.params.get(name, {})},
                inputs=inputs,
                outputs={"ir": "ir.mlir"},
            )
        return graph, names

    def run(
        self,
        text: str,
        *,
        jobs: int = 2,
        memory_mb: int = 4096,
        most_actions: int = 1,
        hear: Callable[[Event, Scheduler], object] = lambda *_: None,
        **script: str,
    ) -> Ran:
        """Run a graph; ``script`` has a word or more, with commas, for the executions of each action."""
        graph, names = self.graph(text)
        events: list[Event] = []
        self.pool = None

        def make_pool(context: PoolContext) -> FakePool:
            self.pool = FakePool(context, {name: words.split(",") for name, words in script.items()}, most_actions)
            return self.pool

        scheduler = Scheduler(
            graph,
            roots=[self.folder],
            environments=self.environments,
            home=self.home,
            limits=Limits(jobs=jobs, memory_mb=memory_mb, timeout_s=1),
            make_pool=make_pool,
        )

        def listen(event: Event) -> bool:
            events.append(event)
            return bool(hear(event, scheduler))

        short = {identifier: name for name, identifier in names.items()}
        self.scheduler = scheduler
        scheduler.run(listen)
        done = {short[identifier]: done for identifier, done in scheduler.done.items()}
        if self.pool is not None and len(done) == len(names):
            assert self.pool.released == len(self.pool.sent) - self.pool.refused, "each job is released once"
            assert not any(worker.pending for worker in self.pool.workers() if "hangs" not in script.values())
        assert not self.home.scratch.exists() or not any(self.home.scratch.iterdir())
        return Ran({name: done[name] for name in names if name in done}, self.pool, events)

    def spoil(self, digest: str) -> None:
        """Remove a blob from the cache."""
        os.unlink(self.store.blob_path(digest))


@pytest.fixture(scope="module")
def actions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for all tests. Each has keys of its own."""
    folder = tmp_path_factory.mktemp("actions")
    ActionCache(folder).prepare()
    return folder


@pytest.fixture
def world(tmp_path: Path, actions: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Runs without pauses."""
    monkeypatch.setattr(queues, "_BACK_OFF_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr(module, "_TICK_S", 0.001)
    return World(tmp_path, actions)


#: A graph, what becomes of its actions, how the run ends, and which jobs the pool got.
RUNS = {
    "chain": ("a b<a c<b", {}, "a:ok* b:ok* c:ok*", "a b c"),
    "failure is inherited": ("a b<a c<b", {"a": "lower-failed"}, "a:lower-failed* b:lower-failed c:lower-failed", "a"),
    "failure ends no other": ("a b c<a", {"a": "lower-failed"}, "a:lower-failed* b:ok* c:lower-failed", "a b"),
    "time-out": ("a b<a", {"a": "timed-out"}, "a:timed-out* b:timed-out", "a"),
    "damaged once": ("a b<a", {"a": "damaged"}, "a:ok* b:ok*", "a a b"),
    "damaged twice": ("a b<a", {"a": "damaged,damaged"}, "a:lower-failed* b:lower-failed", "a a"),
    "impossible outcome": ("a", {"a": "run-failed,ok"}, "a:ok*", "a a"),
    "machine": ("a b<a c", {"a": "trouble"}, "a:infra-error b:infra-error c:ok*", "a c"),
    "worker lost once": ("a b<a", {"a": "dies"}, "a:ok* b:ok*", "a a b"),
    "worker lost twice": ("a b<a", {"a": "dies,dies"}, "a:crashed* b:crashed", "a a"),
    "lost, then damaged": ("a", {"a": "dies,damaged"}, "a:lower-failed*", "a a"),
    "hang": ("a b<a", {"a": "hangs"}, "a:ok* b:ok*", "a a b"),
    "hang twice": ("a", {"a": "hangs,hangs"}, "a:crashed*", "a a"),
    "never starts": (
        "a b<a",
        {"a": "never starts,never starts,never starts,never starts"},
        "a:infra-error b:infra-error",
        None,
    ),
    "executor refuses": ("a b<a c", {"a": "refuses"}, "a:infra-error b:infra-error c:infra-error", "a"),
    "disk": ("a b<a c", {"a": "disk"}, "a:infra-error b:infra-error c:ok*", "a c"),
}


@pytest.mark.parametrize("name", RUNS)
def test_run(world: World, name: str) -> None:
    text, script, ends, sent = RUNS[name]
    ran = world.run(text, jobs=1, **script)
    assert ran.ends == ends
    assert sent is None or sorted(ran.sent) == sorted(sent.split())


@pytest.mark.parametrize("word", ["ok", "lower-failed"])
def test_actions_of_one_key_are_executed_once(world: World, word: str) -> None:
    ran = world.run("a c b<a b'<c d<b e<b'", a="ok=x", c="ok=x", **{"b": word, "b'": word})
    outcomes = {name: done.result.outcome["outcome"] for name, done in ran.done.items()}
    assert (outcomes["b"], outcomes["b'"], outcomes["d"], outcomes["e"]) == (word,) * 4
    assert sorted(done.executed for name, done in ran.done.items() if name in ("b", "b'")) == [False, True]
    assert len(ran.sent) == (5 if word == "ok" else 3)


#: The same for jobs of several actions: jobs with commas between them.
LISTS = {
    "chain": ("a b<a c<b", {}, "a:ok* b:ok* c:ok*", "a b c"),
    "prefix": ("a b<a c<a", {}, "a:ok* b:ok* c:ok*", "a b,c|a c,b"),
    "two sources": ("a b c<a,b", {}, "a:ok* b:ok* c:ok*", "a,b c|b,a c"),
    "first fails": ("a b<a", {"a": "lower-failed"}, "a:lower-failed* b:lower-failed", "a"),
    "another fails": ("a b<a", {"b": "lower-failed,lower-failed"}, "a:ok* b:lower-failed*", "a b,b"),
    "another fails there only": ("a b<a c<b", {"b": "lower-failed"}, "a:ok* b:ok* c:ok*", "a b,b c"),
    "another is late": ("a b<a c<b", {"b": "timed-out"}, "a:ok* b:timed-out* c:timed-out", "a b"),
    "worker lost": ("a b<a c<b", {"b": "dies"}, "a:ok* b:ok* c:ok*", "a b,b c"),
    "worker lost twice": ("a b<a c<b", {"b": "dies,dies"}, "a:ok* b:crashed* c:crashed", "a b,b"),
    "damaged": ("a b<a c<b", {"b": "damaged"}, "a:ok* b:ok* c:ok*", "a b,b c"),
    "machine": ("a b<a", {"b": "trouble,trouble"}, "a:ok* b:infra-error", "a b,b"),
    "hang": ("a b<a c<b", {"b": "hangs"}, "a:ok* b:ok* c:ok*", "a b,b c"),
}


@pytest.mark.parametrize("name", LISTS)
def test_job_of_several_actions(world: World, name: str) -> None:
    text, script, ends, sent = LISTS[name]
    ran = world.run(text, jobs=1, most_actions=8, **script)
    assert ran.ends == ends
    assert ran.sent in [words.split(",") for words in sent.split("|")]
    assert ran.pool is not None
    assert ran.pool.cancelled == []


def test_job_ends_where_the_next_result_is_known(world: World) -> None:
    """It does not go on with what is in the cache, and its process ends."""
    world.run("z c<z", z="ok=x")
    ran = world.run("a b<a c<b d<c", jobs=1, most_actions=8, b="ok=x")
    assert (ran.ends, ran.sent) == ("a:ok* b:ok* c:ok d:ok*", ["a b", "d"])
    assert ran.pool is not None
    assert ran.pool.cancelled == ["c"]


def test_job_ends_where_an_equal_action_runs(world: World) -> None:
    ran = world.run("a c b<a b'<c", jobs=2, most_actions=8, a="ok=x", c="ok=x")
    assert sorted(ran.sent) in (["a", "c b'"], ["a b", "c"])
    assert ran.pool is not None
    assert len(ran.pool.cancelled) == 1
    assert sorted(done.executed for done in ran.done.values()) == [False, True, True, True]


def test_job_ends_where_its_next_input_is_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is needed is rebuilt, and the action is executed then."""
    world.run("q")
    path = world.store.blob_path(next(iter(world.scheduler.done.values())).result.outputs["ir"])
    damage(path)
    ran = world.run("q a b<a,q", jobs=1, most_actions=8)
    assert ran.ends == "q:ok* a:ok* b:ok*"
    assert sorted(ran.sent) == ["a", "b", "b", "q"]


def test_job_ends_where_another_run_has_the_next_action(world: World) -> None:
    """It is executed when that run has ended without a result."""
    world.run("a")
    other = KeyLocks(world.home.actions)

    def hear(event: Event, _: Scheduler) -> None:
        if isinstance(event, Tick) and event.waiting:
            other.close()

    graph, names = world.graph("a b<a")
    done = {names["a"]: Done(result=replace(world.scheduler.done[names["a"]].result), cached=True)}
    prepared = world.scheduler._lookup.prepare(graph.actions[names["b"]], HERE.digest, done)
    assert other.take(prepared.key)
    world.spoil(done[names["a"]].result.outputs["ir"])
    ran = world.run("a b<a", most_actions=8, hear=hear)
    assert (ran.ends, ran.sent) == ("a:ok* b:ok*", ["a", "b"])
    assert ran.pool is not None
    assert ran.pool.cancelled == ["b"]


@pytest.mark.parametrize("why", ["foreign", "tool", "environment", "one", "first", "backend", "first backend"])
def test_actions_that_have_a_process_of_their_own(world: World, why: str) -> None:
    world.environments["other"] = OTHER
    if why == "foreign":
        world.places = dict.fromkeys("ab", "other")
    elif why == "environment":
        world.places = {"b": "other"}
    elif why == "tool":
        world.tools = {"b": "run"}
    elif why == "first":
        world.tools = {"a": "python_file"}
    elif why == "backend":
        world.params = {"b": {"backend": "programs"}}
    elif why == "first backend":
        world.params = {"a": {"backend": "programs"}}
    ran = world.run("a b<a", most_actions=1 if why == "one" else 8)
    assert (ran.ends, ran.sent) == ("a:ok* b:ok*", ["a", "b"])


def test_large_outputs_are_hashed_aside(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job goes on after its outputs are hashed."""
    monkeypatch.setattr(folders, "LARGE", 3)
    ran = world.run("a b<a c<b", jobs=1, most_actions=8, a="ok=large", b="ok=large too")
    assert (ran.ends, ran.sent) == ("a:ok* b:ok* c:ok*", ["a b c"])
    assert world.store.read_blob(ran.done["b"].result.outputs["ir"]).startswith(b"large too")


def test_process_ends_while_it_waits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its report and its end come at once."""
    original = FakeWorker.say

    def say(worker: FakeWorker, job: Job, *, more: bool = False, trouble: str = "") -> None:
        original(worker, job, more=more, trouble=trouble)
        if more:
            original(worker, job)

    monkeypatch.setattr(FakeWorker, "say", say)
    ran = world.run("a b<a", jobs=1, most_actions=8)
    assert (ran.ends, ran.sent) == ("a:ok* b:ok*", ["a", "b"])


@pytest.mark.parametrize("what", ["worker", "process"])
def test_end_while_outputs_are_hashed(world: World, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """They are taken all the same, and the next action has a process of its own."""
    monkeypatch.setattr(folders, "LARGE", 3)
    original = module.hash_outputs

    def hash_slowly(*given: Any) -> None:
        assert world.pool is not None
        for worker in world.pool.workers():
            if what == "worker":
                worker.kill()
                continue
            for job in [*worker.pending.values()]:
                worker.say(job)
        time.sleep(0.05)
        original(*given)

    monkeypatch.setattr(module, "hash_outputs", hash_slowly)
    ran = world.run("a b<a", jobs=1, most_actions=8)
    assert (ran.ends, ran.sent) == ("a:ok* b:ok*", ["a", "b"])
    assert all(task.losses == 0 for task in world.scheduler._tasks.values())


def test_large_inputs_are_copied_aside(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And are no part of a longer job."""
    monkeypatch.setattr(folders, "LARGE", 3)
    monkeypatch.setattr(ActionCache, "is_large", lambda store, digest: os.stat(store.blob_path(digest)).st_size > 3)
    ran = world.run("a b c<a d<b,c", jobs=1, most_actions=8, a="ok=large", b="ok=also", c="ok=x")
    assert ran.ends == "a:ok* b:ok* c:ok* d:ok*"
    assert "d" in ran.sent
    refused = world.run("e f<e", jobs=1, e="ok=large", f="disk")
    assert refused.ends == "e:ok* f:infra-error"


def test_results_are_cached(world: World) -> None:
    """All but what is about the moment, and failures for runs that allow no more memory."""
    text = "a b<a c d e"
    script = {"c": "lower-failed", "d": "timed-out", "e": "trouble"}
    world.run(text, **script, memory_mb=100)
    assert world.run(text, memory_mb=100).ends == "a:ok b:ok c:lower-failed d:ok* e:ok*"
    assert world.run(text, memory_mb=50).ends == "a:ok b:ok c:lower-failed d:ok e:ok"
    again = world.run(text, memory_mb=200)
    assert (again.ends, again.sent) == ("a:ok b:ok c:ok* d:ok e:ok", ["c"])
    assert all(done.cached for name, done in again.done.items() if name != "c")
    assert world.run(text).pool is None


def test_lost_output_is_rebuilt_for_its_readers(world: World) -> None:
    """Once, and they wait for it. A second loss is the end of them."""
    first = world.run("a b<a")
    world.spoil(first.done["a"].result.outputs["ir"])
    ran = world.run("a c<a d<a e<c", jobs=1)
    assert ran.ends == "a:ok* c:ok* d:ok* e:ok*"
    assert sorted(ran.sent) == [*"acde"]


def damage(path: str) -> None:
    """Change a blob, which is found only when it is read."""
    Path(path).write_text("damaged")


@pytest.mark.parametrize("readers", ["b<a", "b<a c<a", "b<a c<a d<b,c"])
def test_damaged_output_is_rebuilt_before_its_readers(world: World, readers: str) -> None:
    first = world.run("a")
    damage(world.store.blob_path(first.done["a"].result.outputs["ir"]))
    ran = world.run(f"a {readers}", jobs=1)
    assert {done.result.outcome["outcome"] for done in ran.done.values()} == {"ok"}
    names = [word[0] for word in readers.split()]
    # The first reader is refused, then a is executed, then all readers.
    assert (len(ran.sent), {*ran.sent}) == (len(names) + 2, {"a", *names})
    assert ran.sent.index("a") == 1
    ends = [event.action.id[0] for event in ran.events if isinstance(event, ActionDone)]
    assert ends.count("a") == 2
    assert all(ends.count(name) == 1 for name in names)


def test_output_that_is_damaged_again(world: World) -> None:
    first = world.run("a")
    path = world.store.blob_path(first.done["a"].result.outputs["ir"])
    damage(path)

    def hear(event: Event, scheduler: Scheduler) -> None:
        if isinstance(event, ActionDone) and event.done.executed and event.action.id.startswith("a-"):
            damage(path)
            scheduler._store._recent.clear()

    ran = world.run("a b<a c<b", jobs=1, hear=hear)
    assert ran.ends == "a:ok* b:infra-error c:infra-error"
    assert ran.reason("b").endswith("was damaged and has been removed, and again after it was rebuilt")


def test_two_readers_find_a_damaged_output(world: World) -> None:
    """Both were about to start: it is executed once, and both wait for it."""
    first = world.run("a")
    damage(world.store.blob_path(first.done["a"].result.outputs["ir"]))

    def hear(event: Event, scheduler: Scheduler) -> None:
        if isinstance(event, ActionStarted) and event.action.id.startswith("a-"):
            # The first reader has found it.
            assert scheduler._redone

    ran = world.run("a b<a c<a", jobs=3, hear=hear)
    assert ran.ends == "a:ok* b:ok* c:ok*"
    assert ran.sent.count("a") == 1


def test_input_that_was_rebuilt_meanwhile(world: World) -> None:
    """Its reader met the loss before that, and comes to it now."""
    world.run("a b<a")
    scheduler = world.scheduler
    maker, reader = (scheduler._graph.actions[identifier] for identifier in scheduler.done)
    prepared = scheduler._lookup.prepare(reader, HERE.digest, scheduler.done)
    scheduler._redone[maker.id] = None
    scheduler._tasks[prepared.key] = task = Task(reader, prepared, HERE)
    scheduler._find_again(task, LostBlob(scheduler.done[maker.id].result.outputs["ir"], "is missing"))
    assert scheduler.done[reader.id].result.ok


def test_rebuilt_output_is_another(world: World) -> None:
    """Its readers get other keys, and failures are theirs, too."""
    for word, ends in (("ok=other", "a:ok* b:ok*"), ("lower-failed", "a:lower-failed* b:lower-failed")):
        first = world.run("a")
        damage(world.store.blob_path(first.done["a"].result.outputs["ir"]))
        assert world.run("a b<a", jobs=1, a=word).ends == ends
        world = World(world.folder.with_name(word), world.home.actions)


def test_listener_has_an_output_rebuilt(world: World) -> None:
    """It gets the end of the action again, and no exception passes through it."""
    world.run("a b<a")
    reads: list[str] = []

    def hear(event: Event, scheduler: Scheduler) -> None:
        if not isinstance(event, ActionDone):
            return
        try:
            reads.append(scheduler.read_blob(event.done.result.outputs["ir"]).decode().split()[0])
        except LostBlob as lost:
            reads.append("lost")
            scheduler.rebuild(lost)

    _, names = world.graph("a b<a")
    digest = world.scheduler.done[names["b"]].result.outputs["ir"]
    damage(world.store.blob_path(digest))
    ran = world.run("a b<a c<b", hear=hear)
    assert ran.ends == "a:ok b:ok* c:ok*"
    assert reads == ["a", "lost", "b", "c"]


def test_listener_has_an_earlier_output_rebuilt(world: World) -> None:
    first = world.run("a b<a")
    digest = first.done["a"].result.outputs["ir"]
    tries: list[str] = []

    def hear(event: Event, scheduler: Scheduler) -> None:
        if isinstance(event, ActionDone) and event.action.id.startswith("b-"):
            tries.append("x")
            if len(tries) < 2:
                world.spoil(digest)
                scheduler.rebuild(LostBlob(digest, "is missing"))

    ran = world.run("a b<a c<b", hear=hear)
    assert (ran.ends, ran.sent, len(tries)) == ("a:ok* b:ok c:ok*", ["a", "c"], 2)


def test_listener_that_never_gets_an_output(world: World) -> None:
    """What was rebuilt and is lost again ends as an infra-error, with those that wait for it."""

    def hear(event: Event, scheduler: Scheduler) -> None:
        if isinstance(event, ActionDone) and event.done.result.ok:
            scheduler.rebuild(LostBlob(event.done.result.outputs["ir"], "is missing"))

    ran = world.run("a b<a", hear=hear)
    assert ran.ends == "a:infra-error b:infra-error"
    assert ran.reason("a").endswith("and again after it was rebuilt")


def test_fail_fast(world: World) -> None:
    """Nothing is begun after the listener has ended the run, and what is finished is cached."""

    def hear(event: Event, _: Scheduler) -> bool:
        return isinstance(event, ActionDone) and not event.done.result.ok

    ran = world.run("a b<a c<b d<c", jobs=1, b="lower-failed", hear=hear)
    assert (ran.ends, ran.sent) == ("a:ok* b:lower-failed*", ["a", "b"])
    assert world.run("a b<a").pool is None
    assert world.run("a b<a c<b", hear=hear).ends == "a:ok b:lower-failed"


def test_nothing_is_sent_after_the_listener_has_ended_the_run(world: World) -> None:
    ran = world.run("a b c d", jobs=1, hear=lambda event, _: isinstance(event, ActionDone))
    assert len(ran.sent) == len(ran.done) == 1


def test_result_of_another_run_is_found_before_the_action_is_sent(world: World) -> None:
    """It came after the look-up of all ready actions."""
    result = next(iter(world.run("q").done.values())).result

    def hear(event: Event, scheduler: Scheduler) -> None:
        if isinstance(event, ActionStarted):
            for task in scheduler._tasks.values():
                world.store.keep(task.prepared.key, result)

    ran = world.run("a b", jobs=1, hear=hear)
    assert (len(ran.sent), sorted(done.executed for done in ran.done.values())) == (1, [False, True])


@pytest.mark.parametrize("most_actions", [1, 8])
@pytest.mark.parametrize("number", range(1, 7))
def test_interrupt(world: World, number: int, most_actions: int) -> None:
    """Whenever it comes, what is finished is cached, and the next run executes the rest."""
    heard: list[Event] = []

    def hear(event: Event, _: Scheduler) -> None:
        if not isinstance(event, Tick):
            heard.append(event)
            if len(heard) == number:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.run("a b<a c<b", most_actions=most_actions, hear=hear)
    finished = len(world.scheduler.done)
    ran = world.run("a b<a c<b")
    assert len([done for done in ran.done.values() if done.executed]) == 3 - finished


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_no_more_jobs_than_allowed(world: World, jobs: int) -> None:
    ran = world.run("a b c d e f<a g<b", jobs=jobs)
    assert ran.pool is not None
    assert max(ran.pool.running) == jobs
    assert sorted(ran.sent) == [*"abcdefg"]


def test_tests_finish_one_after_the_other(world: World) -> None:
    ran = world.run("a b c d<a e<b f<c g<d h<e i<f", jobs=1)
    assert {"".join(ran.sent[at : at + 3]) for at in (0, 3, 6)} == {"adg", "beh", "cfi"}


def test_lost_tasks_are_retried_alone(world: World) -> None:
    """With a new worker each, to find the one that ends it."""
    ran = world.run("a b c d", jobs=4, a="hangs,ok", b="hangs,ok", c="dies,dies")
    assert ran.ends == "a:ok* b:ok* c:crashed* d:ok*"
    assert ran.pool is not None
    retried = len(ran.sent) - 4
    assert ran.pool.running[4:] == [1] * retried
    assert ran.pool.started == 1 + retried
    assert ran.done["c"].result.outcome["signal"] == "SIGKILL"
    assert ran.done["c"].result.outcome["diagnostics"] == "its last words"
    assert ran.reason("c") == "its worker ended twice (environment here)"
    assert world.run("c").ends == "c:ok*", "nothing is known for sure"


def test_nothing_runs_beside_a_retried_task(world: World) -> None:
    ran = world.run("a b c d", jobs=2, **dict.fromkeys("abcd", "dies"))
    assert ran.ends == "a:ok* b:ok* c:ok* d:ok*"
    assert ran.pool is not None
    assert ran.pool.running == [1, 2, 1, 1, 1, 2, 1, 1]


def test_worker_that_never_starts_is_given_up(world: World) -> None:
    """With all that waits for its environment, and nothing of others."""
    world.environments["other"] = OTHER
    world.places = {"c": "other", "d": "other"}
    never = ",".join(["never starts"] * 9)
    ran = world.run("a b c d<b e<a", jobs=1, a=never, b=never)
    assert ran.ends == "a:infra-error b:infra-error c:ok* d:infra-error e:infra-error"
    assert ran.reason("a") == "the worker of environment here does not start: its last words"
    assert len(ran.sent) == 5


def test_broken_environment(world: World) -> None:
    """What the pool refuses once is not asked for again, also not by actions that become ready later."""
    world.environments["other"] = OTHER
    world.places = {"b": "other", "c": "here"}
    ran = world.run("a b c<b d<b e", jobs=3, a="refuses")
    assert ran.ends == "a:infra-error b:ok* c:infra-error d:infra-error e:infra-error"
    assert (sorted(ran.sent), ran.reason("c")) == (["a", "b"], "not today")


def test_pool_that_cannot_be_made(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise InfrastructureError("no daemon answers")

    monkeypatch.setattr(FakePool, "__init__", refuse)
    with pytest.raises(InfrastructureError, match="no daemon answers"):
        world.run("a")


def test_unavailable_environment(world: World) -> None:
    world.environments["gone"] = UnavailableEnvironment(name="gone", reason="no wheel for it")
    world.places = {"b": "gone"}
    ran = world.run("a b<a c<b")
    assert ran.ends == "a:ok* b:skipped c:skipped"
    assert ran.reason("c") == "unavailable on this machine: no wheel for it"


@pytest.mark.parametrize("finishes", [True, False])
def test_action_that_another_run_executes(world: World, finishes: bool) -> None:
    """It takes no worker. Its result is taken, or it is executed when the lock is free."""
    graph, names = world.graph("a")
    scheduler = world.run("b").pool and world.scheduler
    assert scheduler
    prepared = scheduler._lookup.prepare(graph.actions[names["a"]], HERE.digest, {})
    other = KeyLocks(world.home.actions)
    assert other.take(prepared.key)
    result = replace(next(iter(scheduler.done.values())).result)
    waiting: list[int] = []

    def hear(event: Event, _: Scheduler) -> None:
        if isinstance(event, Tick):
            waiting.append(event.waiting)
            if len(waiting) == 3:
                if finishes:
                    world.store.keep(prepared.key, result)
                other.close()

    ran = world.run("a c", jobs=1, hear=hear)
    assert ran.ends == ("a:ok c:ok*" if finishes else "a:ok* c:ok*")
    assert ran.sent == (["c"] if finishes else ["c", "a"])
    assert max(waiting) == 1


def test_lock_that_is_never_released(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a multiple of the action's time limit it is executed all the same."""
    monkeypatch.setattr(module, "BUSY", 0.02)
    graph, names = world.graph("a")
    world.run("b")
    prepared = world.scheduler._lookup.prepare(graph.actions[names["a"]], HERE.digest, {})
    other = KeyLocks(world.home.actions)
    assert other.take(prepared.key)
    assert world.run("a").ends == "a:ok*"
    other.close()


def test_what_is_not_isolated_is_said_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    original = FakeWorker.receive

    def receive(worker: FakeWorker) -> tuple[list[tuple[Any, WorkResponse]], bool]:
        answers, alive = original(worker)
        return [(job, replace(answer, not_isolated="no namespaces")) for job, answer in answers], alive

    monkeypatch.setattr(FakeWorker, "receive", receive)
    assert world.run("a b c").notes == ["actions are not fully isolated (docs/isolation.md): no namespaces"]


def test_events_come_in_order(world: World) -> None:
    ran = world.run("a b<a", most_actions=8)
    kinds = [type(event) for event in ran.events if not isinstance(event, Tick)]
    assert kinds == [ActionStarted, ActionDone, ActionStarted, ActionDone]


def test_time_limits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent worker is killed only after the limit of its longest action."""
    monkeypatch.setattr(worker_pool, "_PATIENCE_S", 0.0)
    ran = world.run("a b", jobs=1, a="hangs")
    assert (ran.ends, ran.pool and ran.pool.started) == ("a:ok* b:ok*", 2)


def test_relied_files_are_those_of_all_results(world: World) -> None:
    world.run("a b<a")
    world.run("a b<a c<b")
    files = world.scheduler.relied()
    assert len(files) == 6
    assert all(os.path.exists(file) for file in files)


# The end of a run in which nothing can happen any more


class ForgetfulSupply(PackageSupply):
    """Loses every request."""

    def request(self, environments: Iterable[ResolvedEnvironment]) -> None:
        del environments


class ForgetfulPool(LocalPool):
    """A pool that waits for packages that nothing installs."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.supply = ForgetfulSupply(context.home, context.wake)


class ClosedPool(LocalPool):
    """A pool that never takes a job."""

    def open_environments(self, waiting: Mapping[str, int]) -> tuple[str, ...]:
        del waiting
        return ()


def run(
    folder: Path,
    pool: PoolFactory,
    *,
    packages: tuple[WheelPackage, ...] = (),
    prefixes: tuple[DebianRelease, ...] = (),
) -> dict[str, str]:
    """Run an action in an environment with packages, one that reads its output, and one that needs no package."""
    graph = Graph()
    environment = ResolvedEnvironment(name="large", interpreter=own(), packages=packages, prefixes=prefixes)
    places = {"first": "large", "second": "large", "alone": "here"}
    found: dict[str, str] = {}
    for name, place in places.items():
        inputs = {"ir": Produced(found["first"], "ir")} if name == "second" else {}
        found[name] = graph.add(
            name, tool="passes", stage="lower", environment=place, params={}, inputs=inputs, outputs={"ir": "ir.mlir"}
        )
    home = Home(cache=folder, state=folder, actions=folder / "actions")
    home.packages.mkdir(parents=True)
    home.bytecode.symlink_to(find_home().bytecode)
    scheduler = Scheduler(
        graph, roots=[], environments={"large": environment, "here": HERE}, home=home, limits=Limits(jobs=1), make_pool=pool
    )  # fmt: skip
    done = scheduler.run()
    outcomes = {name: done[found[name]].result.outcome for name in places}
    return {name: f"{outcome['outcome']}: {outcome['reason']}" for name, outcome in outcomes.items()}


PACKAGES = tuple(WheelPackage(name=name, version="1.0", hashes=("0" * 64,)) for name in ("one", "two"))


def test_packages_that_nothing_installs(tmp_path: Path) -> None:
    """The run ends, says what the environment lacks, and has done what it could."""
    ended = run(tmp_path, ForgetfulPool, packages=PACKAGES)
    lacks = "infra-error: environment large lacks one 1.0, two 1.0, which nothing installs; run the same command again"
    assert (ended["first"], ended["second"]) == (lacks, lacks)
    assert "the tool passes" in ended["alone"], "it was executed"


def test_actions_that_no_worker_takes(tmp_path: Path) -> None:
    ended = run(tmp_path, ClosedPool, packages=())
    for outcome in ended.values():
        assert outcome.startswith("infra-error: environment large takes no action, and nothing is running")


def test_packages_that_need_a_mirror(without_mirror: Path, tmp_path: Path) -> None:
    """Without one, their tests are skipped; with one that has none of them, the infrastructure has failed."""
    lock = debs.release(debs.Mirror(tmp_path / "mirror"))
    skipped = run(tmp_path / "skipped", LocalPool, prefixes=(lock,))
    why = f"its Debian packages need a mirror, and apt's configuration ({without_mirror}) has none"
    assert skipped["first"].startswith(f"skipped: unavailable on this machine: tool 2.0: {why}")
    assert skipped["second"] == skipped["first"]
    assert "the tool passes" in skipped["alone"], "it was executed"
    (without_mirror / "sources.list").write_text(f"deb file://{tmp_path}/debian bookworm main\n")
    failed = run(tmp_path / "failed", LocalPool, prefixes=(lock,))
    assert failed["first"].startswith("infra-error: tool 2.0: ")
    assert failed["second"] == failed["first"]


def test_packages_that_take_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long an installation takes, it is waited for: longer here than the loop's pauses."""

    def fail_slowly(package: WheelPackage, interpreter: Interpreter, workshop: Workshop) -> None:
        del interpreter, workshop
        time.sleep(0.7)
        raise InfrastructureError(f"{package.label} is not to be had")

    monkeypatch.setattr(installer, "_INSTALL", {WheelPackage: fail_slowly})
    ended = run(tmp_path, LocalPool, packages=PACKAGES[:1])
    assert (ended["first"], ended["second"]) == ("infra-error: one 1.0 is not to be had",) * 2
