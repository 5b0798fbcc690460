"""What a run gives, for comparing executors: outcomes of tests and the bytes at every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlir_matrix.base.paths import Home
from mlir_matrix.expand.select import choose
from mlir_matrix.plan.request import LOCAL, ExecutorOptions, Limits
from mlir_matrix.plan.session import open_session, plan_tests
from mlir_matrix.results.run_plan import run_plan
from support.downstream import Downstream
from support.hostile import MLIR

#: Of smoke: each kind of action that MLIR's environments have. A remote service takes a second for an action.
CHOSEN = ("smoke", "mlir/linalg-vectorized/x86_64/mlp", "mlir/{linalg-named-canonical,linalg-to-openmp}/ir/*")
#: Programs that fail in ways of their own: by a signal, by what guards memory, and by wrong numbers.
BROKEN = ("m_divides", "m_out_of_bounds", "m_wrong")
_LIMITS = Limits(jobs=2, timeout_s=60)


@dataclass(frozen=True)
class Came:
    """The outcome of each test; the outcome of each action with the digests of its outputs."""

    tests: Mapping[str, tuple[str, str, str]]
    actions: Mapping[str, tuple[str, Mapping[str, str]]]
    #: Of each action, the environment.
    environments: Mapping[str, str]
    executed: int


def write_broken(folder: Path) -> Path:
    """Write a catalog of programs that fail."""
    catalog = Downstream(folder)
    for name in BROKEN:
        catalog.workload(name, linalg=MLIR[name][0])
    return catalog.root


def run(
    home: Home,
    broken: Path,
    options: ExecutorOptions = LOCAL,
    words: Sequence[str] = CHOSEN,
    failing: Sequence[str] = BROKEN,
) -> Came:
    """Run tests of smoke, and those that fail, by an executor."""
    current = replace(open_session(catalogs=[broken]), home=home)
    names = [f"mlir/linalg-loops/x86_64/{name}" for name in failing]
    chosen = [test for each in (words, names) for test in choose(current.catalog, each, pins=current.pins).tests()]
    plan = plan_tests(current, {test.id: test for test in chosen}.values())
    done = run_plan(current, plan, options=options, limits=_LIMITS, fail_fast=False)
    assert done.interruption is None
    return Came(
        tests={result.id: (result.outcome, result.stage, result.reason) for result in done.results},
        actions={name: (each.result.outcome["outcome"], dict(each.result.outputs)) for name, each in done.done.items()},
        environments={name: plan.graph.actions[name].environment for name in done.done},
        executed=done.executed,
    )


def check_agreement(found: Came, local: Came) -> None:
    """Check that each test and each action gave what the local executor gives."""
    assert found.tests == {name: local.tests[name] for name in found.tests}
    assert found.actions == {name: local.actions[name] for name in found.actions}
