"""The scheduler, where what it knows is overtaken: everything else is tried by whole runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from mlir_matrix.actions.runtime.child import failure
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.paths import Home, find_home
from mlir_matrix.environments import installer
from mlir_matrix.environments.fetch.workshop import Workshop
from mlir_matrix.environments.interpreter import Interpreter, own
from mlir_matrix.environments.lockfiles.debian import DebianRelease
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.action_cache import LostBlob, Result
from mlir_matrix.execute.folders import Prepared
from mlir_matrix.execute.job import ActionDone, Done, Job
from mlir_matrix.execute.local_pool import LocalPool
from mlir_matrix.execute.scheduler import Scheduler
from mlir_matrix.execute.worker_pool import PackageSupply, PoolFactory
from mlir_matrix.plan.graph import Action, Graph, Produced
from mlir_matrix.plan.request import Limits
from support import debs

OK = {"outcome": "ok", "stage": "lower"}
FAILED = Result(outcome=failure("lower", "timed-out", "no answer within 1 s"))


LOST = LostBlob("a" * 64, "was damaged and has been removed")


def chain(folder: Path) -> tuple[Any, list[Action]]:
    """A scheduler that has not begun, with an action and one that reads its output."""
    graph = Graph()
    ids = []
    for name in ("made", "reads"):
        inputs = {"ir": Produced(ids[0], "ir")} if ids else {}
        ids.append(
            graph.add(
                name,
                tool="passes",
                stage="lower",
                environment="mlir",
                params={},
                inputs=inputs,
                outputs={"ir": "ir.mlir"},
            )
        )
    environment = ResolvedEnvironment.__new__(ResolvedEnvironment)
    object.__setattr__(environment, "digest", "e")
    scheduler: Any = Scheduler(
        graph, roots=[folder], environments={"mlir": environment}, home=Home(cache=folder, state=folder, actions=folder),
        limits=Limits(jobs=1), make_pool=cast(Any, None),
    )  # fmt: skip
    scheduler._install = lambda: None
    return scheduler, [graph.actions[each] for each in ids]


@pytest.mark.parametrize(
    "made",
    [FAILED, Result(outcome=OK, outputs={"ir": "b" * 64}), Result(outcome=OK, outputs={"ir": LOST.digest})],
    ids=["failed", "other bytes", "the same bytes"],
)
def test_a_lost_input_that_was_made_anew_meanwhile(made: Result, tmp_path: Path) -> None:
    """Two jobs wait for one damaged blob; the second comes to it when the first has had it made again."""
    scheduler, (maker, reads) = chain(tmp_path)
    found: dict[str, Done] = {}
    scheduler._listener = lambda event: found.__setitem__(event.action.id, event.done)
    scheduler.done[maker.id] = Done(result=made, cached=False, executed=True)
    scheduler._redone[maker.id] = None
    for digest in made.outputs.values():
        blob = Path(scheduler._store.blob_path(digest))
        blob.parent.mkdir(parents=True)
        blob.touch()
    job = Job(reads, Prepared("k" * 64, reads, ()), scheduler._environments["mlir"])
    scheduler._jobs[job.prepared.key] = job
    scheduler._find_again(job, LOST)
    assert job.prepared.key not in scheduler._jobs
    if made is FAILED:
        assert found[reads.id].result.outcome["outcome"] == "timed-out"
    else:
        assert [waiting.action for waiting in scheduler._jobs.values()] == [reads]


def test_an_output_that_is_lost_again_ends_those_that_wait_for_it(tmp_path: Path) -> None:
    """What listens to the second end reads it, too; the actions that wait for it must not wait for ever."""
    scheduler, (maker, reads) = chain(tmp_path)
    ended: dict[str, str] = {}

    def listen(event: ActionDone) -> None:
        if event.done.result.ok:
            raise LOST
        ended[event.action.id] = event.done.result.outcome["reason"]

    scheduler._listener = listen
    scheduler._redone[maker.id] = [reads.id]
    result = Result(outcome=OK, outputs={"ir": LOST.digest})
    scheduler._advance(scheduler._settle(maker, Done(result=result, cached=False, executed=True)))
    assert ended.keys() == {maker.id, reads.id}
    assert all(reason.endswith("and again after it was rebuilt") for reason in ended.values()), ended


# The end of a run in which nothing can happen any more


HERE = ResolvedEnvironment(name="here", interpreter=own(), packages=())


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
