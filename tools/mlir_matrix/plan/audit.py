"""Plan mutation tests: change the IR or the outputs of tests and judge the results.

There are two rounds in one graph. The first lowers every test to loops and counts the sites of each mutation
(:func:`plan_sites`). The second adds the mutants, runs them with several draws of the inputs and judges them
(:class:`Auditor`). An action takes ten draws: asking for more draws repeats none, and no action takes long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlir_matrix.actions.params import AuditParams, MutateParams
from mlir_matrix.actions.runtime.outcomes import Stage
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import Workload
from mlir_matrix.expand.expansion import Test
from mlir_matrix.plan.goldens import add_forward_error
from mlir_matrix.plan.graph import Input, Produced, cached
from mlir_matrix.plan.parameters import add_inputs
from mlir_matrix.plan.planner import Planner

#: The kind in which loops and the loads and stores in them can still be seen.
_LOOPS = "loops"
#: Sites of a mutation that are taken in one test, spread evenly over those that there are.
MOST_SITES = 4
_CHUNK = 10
#: The mutations of outputs, which are planted where NumPy is (``actions/mutation/output_mutations.py``).
OUTPUTS = (
    *(f"output-flip-bit-{bit}" for bit in (0, 2, 4, 8, 12, 16, 20, 22)), "output-flip-bit-top", "output-sign",
    "output-zeroed-tail", "output-stale-tail", "output-transposed-tile", "output-shifted", "output-rounded-to-bf16",
    "output-scaled",
)  # fmt: skip
#: Mutations of this name must pass.
ALLOWED = "allowed-"
_RANDOM = re.compile(r"\b(uniform|normal|integers|permutation)\(")
_REPORT = {"report": "report.json"}


@dataclass(frozen=True, kw_only=True)
class Report:
    """Some draws, the action that runs the kernel on them (empty where none is needed), and the one that judges them."""

    draws: tuple[int, ...]
    ran: str
    judged: str


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One mutation at one site of a test, over all draws."""

    test: Test
    #: Empty for the kernel as it is, and for all mutations of outputs together.
    mutation: str
    site: int
    #: How many sites there are, of which at most :data:`MOST_SITES` are taken.
    sites: int
    #: What ``audit`` is told: ``mutant``, ``allowed``, ``outputs``, ``trivial``.
    kind: str
    #: The action that changes the IR; empty where none does.
    planting: str
    reports: tuple[Report, ...]


def _middle(test: Test) -> int | None:
    """How many steps of a test's route lead to loops, where an environment with Python bindings makes them; else None."""
    assert test.route is not None
    for number, step in enumerate(test.route.steps, 1):
        if step.gives == _LOOPS:
            return number if step.resolved_step.bindings else None
    return None


def plan_sites(planner: Planner, tests: Iterable[Test]) -> dict[str, str]:
    """By test: the action whose output ``sites`` counts where its IR can be mutated; tests without such IR are left out."""
    found = {}
    for test in tests:
        middle = _middle(test)
        if middle is not None:
            loops = planner.chains.lower(test, 0, planner.chains.enter(test), middle)
            found[test.id] = _mutate(planner, test, middle, loops, {}, {"sites": "sites.json"})
    return found


def _mutate(
    planner: Planner, test: Test, middle: int, loops: Produced, told: MutateParams, outputs: Mapping[str, str]
) -> str:
    assert test.route is not None
    resolved_step = test.route.steps[middle - 1].resolved_step
    if resolved_step.bindings:
        told = {**told, "bindings": resolved_step.bindings}
    return planner.graph.add(
        f"mutate/{test.workload}",
        tool="mutate",
        stage=Stage.LOWER,
        environment=resolved_step.environment,
        params=told,
        inputs={"ir": loops},
        outputs=outputs,
    )


def draws_of(workload: Workload, seeds: int) -> tuple[int, ...]:
    """The draws to take: the first alone where the inputs are the same in each."""
    random = any(_RANDOM.search(tensor.formula) for tensor in workload.inputs.values())
    return tuple(range(seeds if random else 1))


def spread(count: int, most: int = MOST_SITES) -> list[int]:
    """At most so many of ``count`` sites, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [round(at * (count - 1) / (most - 1)) for at in range(most)]


class Auditor:
    """Adds plants to a graph."""

    def __init__(self, catalog: Catalog, planner: Planner, *, seeds: int, numpy: str) -> None:
        """``numpy`` is the environment of references and judges."""
        self._catalog, self._planner, self._seeds, self._numpy = catalog, planner, seeds, numpy
        self._chains = planner.chains
        self._made: dict[tuple[str, tuple[int, ...]], dict[str, Input]] = {}

    def mutants(self, test: Test, sites: Mapping[str, int], outputs: Sequence[str]) -> Iterator[Mutant]:
        """All plants of a test: ``sites`` counts those of each mutation of IR, ``outputs`` names mutations of outputs."""
        kernel = self._chains.compile(test)
        yield self._judged(test, kernel, "allowed", "")
        if outputs:
            yield self._judged(test, kernel, "outputs", "", mutations=outputs)
        yield self._trivial(test)
        for mutation, count in sites.items():
            for site in spread(count):
                yield self._mutant(test, mutation, site, count)

    def _mutant(self, test: Test, mutation: str, site: int, sites: int) -> Mutant:
        middle = _middle(test)
        assert middle is not None
        loops = self._chains.lower(test, 0, self._chains.enter(test), middle)
        planting = _mutate(
            self._planner, test, middle, loops, {"mutation": mutation, "site": site}, {"ir": "mutated.mlir"}
        )
        kernel = self._chains.lower(test, middle, Produced(planting, "ir"))
        kind = "allowed" if mutation.startswith(ALLOWED) else "mutant"
        return self._judged(test, kernel, kind, mutation, site=site, sites=sites, planting=planting)

    def _judged(
        self, test: Test, kernel: Produced, kind: str, mutation: str, *, site: int = 0, sites: int = 0, planting: str = "",
        mutations: Sequence[str] = (),
    ) -> Mutant:  # fmt: skip
        workload = self._catalog.workloads[test.workload]
        reports = []
        for draws in self._chunks(workload.document):
            ran = self._chains.run_draws(test, kernel, draws)
            files: dict[str, Input] = {"failures": Produced(ran, "failures"), **self._right(workload, draws)}
            for draw in draws:
                for name in workload.document.outputs:
                    files[f"actual-{draw}-{name}"] = Produced(ran, f"out-{draw}-{name}")
            judged = self._audit(test, kind, draws, files, mutations=mutations)
            reports.append(Report(draws=draws, ran=ran, judged=judged))
        return Mutant(
            test=test, mutation=mutation, site=site, sites=sites, kind=kind, planting=planting, reports=tuple(reports)
        )

    def _trivial(self, test: Test) -> Mutant:
        workload = self._catalog.workloads[test.workload]
        arguments = list(workload.document.inputs)
        reports = []
        for draws in self._chunks(workload.document):
            files = dict(self._right(workload, draws))
            for draw in draws:
                made = add_inputs(self._planner.graph, workload, self._numpy, draw=draw)
                files |= {f"arg-{draw}-{name}": Produced(made, name) for name in workload.document.inputs}
            judged = self._audit(test, "trivial", draws, files, arguments=arguments)
            reports.append(Report(draws=draws, ran="", judged=judged))
        return Mutant(test=test, mutation="", site=0, sites=0, kind="trivial", planting="", reports=tuple(reports))

    def _chunks(self, workload: Workload) -> list[tuple[int, ...]]:
        draws = draws_of(workload, self._seeds)
        return [draws[start : start + _CHUNK] for start in range(0, len(draws), _CHUNK)]

    def _right(self, workload: Entry[Workload], draws: tuple[int, ...]) -> dict[str, Input]:
        """What is right for some draws, and how far from it a sound computation may come out."""
        return cached(self._made, (workload.name, draws), lambda: self._new_right(workload, draws))

    def _new_right(self, workload: Entry[Workload], draws: tuple[int, ...]) -> dict[str, Input]:
        files: dict[str, Input] = {}
        for draw in draws:
            action = add_forward_error(self._planner.graph, self._catalog, workload, self._numpy, draw=draw)
            for name in workload.document.outputs:
                for part in ("expected", "bound"):
                    files[f"{part}-{draw}-{name}"] = Produced(action, f"{part}-{name}")
        return files

    def _audit(
        self,
        test: Test,
        kind: str,
        draws: Sequence[int],
        files: Mapping[str, Input],
        *,
        mutations: Sequence[str] = (),
        arguments: Sequence[str] | None = None,
    ) -> str:
        params: AuditParams = {
            "outputs": self._planner.judging(test)["outputs"],
            "kind": kind,
            "draws": list(draws),
        }
        if mutations:
            params["mutations"] = list(mutations)
        if arguments is not None:
            params["arguments"] = list(arguments)
        return self._planner.graph.add(
            f"audit/{test.workload}",
            tool="audit",
            stage=Stage.JUDGE,
            environment=self._numpy,
            params=params,
            inputs=files,
            outputs=_REPORT,
        )
