"""The scheduler, where what it knows is overtaken: everything else is tried by whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from mlir_matrix.actions.runtime.child import failure
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.action_cache import LostBlob, Result
from mlir_matrix.execute.job import Done, Job
from mlir_matrix.execute.options import Limits
from mlir_matrix.execute.sandbox import Prepared
from mlir_matrix.execute.scheduler import Scheduler
from mlir_matrix.paths import Home
from mlir_matrix.plan.graph import Graph, Produced

OK = {"outcome": "ok", "stage": "lower"}
FAILED = Result(outcome=failure("lower", "timed-out", "no answer within 1 s"))


@pytest.mark.parametrize("made", [FAILED, Result(outcome=OK, outputs={"ir": "b" * 64})], ids=["failed", "other bytes"])
def test_a_lost_input_that_was_made_anew_meanwhile(made: Result, tmp_path: Path) -> None:
    """Two jobs wait for one damaged blob; the second comes to it when the first has had it made again."""
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
    found: dict[str, Done] = {}
    scheduler: Any = Scheduler(
        graph, roots=[tmp_path], environments={"mlir": environment}, home=Home(cache=tmp_path, state=tmp_path, actions=tmp_path),
        limits=Limits(jobs=1), make_pool=cast(Any, None),
    )  # fmt: skip
    scheduler._listener = lambda event: found.__setitem__(event.action.id, event.done)
    reads = graph.actions[ids[1]]
    scheduler.done[ids[0]] = Done(result=made, cached=False, executed=True)
    scheduler._install = lambda: None
    job = Job(reads, Prepared("k" * 64, reads, ()), environment)
    scheduler._jobs[job.prepared.key] = job
    scheduler._find_again(job, LostBlob("a" * 64, "was damaged and has been removed"))
    assert job.prepared.key not in scheduler._jobs
    if made is FAILED:
        assert found[reads.id].result.outcome["outcome"] == "timed-out"
    else:
        assert [waiting.action for waiting in scheduler._jobs.values()] == [reads]
