"""Plan mutation tests: change the IR or the outputs of tests and judge the results.

There are two rounds in one graph. The first lowers every test to loops and counts the sites of each mutation
(:func:`plan_sites`). The second adds the mutants, runs them with several draws of the inputs and judges them
(:class:`Auditor`). An action takes ten draws, so that more draws repeat none, and no action takes long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from mlir_matrix.actions.contract import Role
from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.actions.params import AuditParams, MutateParams
from mlir_matrix.actions.runtime.prepared import EXPECTED, INTERFACE, RESULTS, of_draw
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import Workload
from mlir_matrix.expand.expansion import Test
from mlir_matrix.plan.graph import Input, Produced
from mlir_matrix.plan.parameters import add_inputs
from mlir_matrix.plan.planner import Planner
from mlir_matrix.plan.programs import has_draws, is_prepared
from mlir_matrix.plan.references import add_reference

#: The kind in which loops and their loads and stores are still visible.
_LOOPS = "loops"
#: The most sites of a mutation that are mutated in one test, spread evenly over all of them.
MOST_SITES = 4
_CHUNK = 10
#: The mutations of outputs, which run in the environment of NumPy (``actions/mutation/output_mutations.py``).
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
class JudgedDraws:
    """Some draws, the actions that run the kernel on them (none where none is needed), and the one that judges them."""

    draws: tuple[int, ...]
    ran: frozenset[str]
    judged: str


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One mutation at one site of a test, over all draws."""

    test: Test
    #: Empty for the unchanged kernel, and for all mutations of outputs together.
    mutation: str
    site: int
    #: The number of all sites, of which at most :data:`MOST_SITES` are mutated.
    sites: int
    #: A parameter of ``audit``: ``mutant``, ``allowed``, ``outputs``, ``trivial``.
    kind: str
    #: The action that changes the IR; empty if none does.
    planting: str
    reports: tuple[JudgedDraws, ...]


def _middle(test: Test) -> int | None:
    """Return how many steps of a test's route lead to loops, if an environment with Python bindings makes them; else None."""
    for number, step in enumerate(test.known_route.steps, 1):
        if step.gives == _LOOPS:
            return number if step.resolved_step.bindings else None
    return None


def plan_sites(planner: Planner, tests: Iterable[Test]) -> dict[str, str]:
    """Return, by test, the action whose output ``sites`` counts the sites of mutations; tests without loops are left out."""
    found = {}
    for test in tests:
        middle = _middle(test)
        if middle is not None:
            found[test.id] = _mutate(planner, test, middle, {}, {"sites": "sites.json"})
    return found


def _mutate(planner: Planner, test: Test, middle: int, params: MutateParams, outputs: Mapping[str, str]) -> str:
    loops = planner.chains.lower(test, 0, planner.chains.enter(test), middle)
    resolved_step = test.known_route.steps[middle - 1].resolved_step
    if resolved_step.bindings:
        params = {**params, "bindings": resolved_step.bindings}
    return planner.graph.add(
        f"mutate/{test.workload}",
        tool="mutate",
        stage=Stage.LOWER,
        environment=resolved_step.environment,
        params=params,
        inputs={"ir": loops},
        outputs=outputs,
    )


def draws_of(workload: Workload, seeds: int) -> tuple[int, ...]:
    """Return the draws to take: the first alone where the inputs are the same in each."""
    random = any(_RANDOM.search(tensor.formula) for tensor in workload.inputs.values())
    return tuple(range(seeds if random else 1))


def spread(count: int, most: int = MOST_SITES) -> list[int]:
    """Return at most ``most`` of ``count`` sites, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [round(at * (count - 1) / (most - 1)) for at in range(most)]


class Auditor:
    """Adds mutants to a graph."""

    def __init__(self, catalog: Catalog, planner: Planner, *, seeds: int, numpy: str) -> None:
        """Add to ``graph``. ``numpy`` is the environment of references and judges."""
        self._catalog, self._planner, self._seeds, self._numpy = catalog, planner, seeds, numpy
        self._chains = planner.chains
        self._bounds: dict[tuple[str, tuple[int, ...]], dict[str, Input]] = {}

    def mutants(self, test: Test, sites: Mapping[str, int], outputs: Sequence[str]) -> Iterator[Mutant]:
        """Return all mutants of a test: ``sites`` counts those of each mutation of IR, ``outputs`` names mutations of outputs."""
        kernel = self._chains.compile(test)
        yield self._judged(test, kernel, "allowed")
        if outputs:
            yield self._judged(test, kernel, "outputs", mutations=outputs)
        yield self._judged(test, None, "trivial")
        for mutation, count in sites.items():
            for site in spread(count):
                yield self._mutant(test, mutation, site, count)

    def _mutant(self, test: Test, mutation: str, site: int, sites: int) -> Mutant:
        middle = _middle(test)
        assert middle is not None
        params: MutateParams = {"mutation": mutation, "site": site}
        planting = _mutate(self._planner, test, middle, params, {"ir": "mutated.mlir"})
        kernel = self._chains.lower(test, middle, Produced(planting, "ir"))
        kind = "allowed" if mutation.startswith(ALLOWED) else "mutant"
        return self._judged(test, kernel, kind, mutation, site=site, sites=sites, planting=planting)

    def _judged(
        self, test: Test, kernel: Input | None, kind: str, mutation: str = "", *, site: int = 0, sites: int = 0,
        planting: str = "", mutations: Sequence[str] = (),
    ) -> Mutant:  # fmt: skip
        """Judge a kernel on all draws; without a kernel, judge the inputs as trivial outputs."""
        workload = self._catalog.workloads[test.workload]
        prepared = is_prepared(self._catalog, workload)
        draws, reports = self._draws(workload), []
        for start in range(0, len(draws), _CHUNK):
            chunk = draws[start : start + _CHUNK]
            files, ran = (self._program_files if prepared else self._files)(test, workload, kernel, chunk)
            judging = self._planner.judging_program(test) if prepared else self._planner.judging(test)
            params = cast("AuditParams", {**judging, "kind": kind, "draws": list(chunk)})
            if mutations:
                params["mutations"] = list(mutations)
            if not kernel:
                params["arguments"] = list(workload.document.inputs)
            judged = self._planner.graph.add(
                f"audit/{test.workload}",
                tool="audit",
                stage=Stage.JUDGE,
                environment=self._numpy,
                params=params,
                inputs=files,
                outputs=_REPORT,
            )
            reports.append(JudgedDraws(draws=chunk, ran=frozenset(ran), judged=judged))
        return Mutant(
            test=test, mutation=mutation, site=site, sites=sites, kind=kind, planting=planting, reports=tuple(reports)
        )

    def _own_bounds(
        self, workload: Entry[Workload], draws: tuple[int, ...], outputs: Sequence[str]
    ) -> dict[str, Input]:
        """Return what bounds the elements of outputs whose layer is derived, in a run of these draws."""
        files: dict[str, Input] = {}
        for draw in draws if outputs else ():
            derived = self._planner.derived(workload, draw)
            files |= {Role.DERIVED.of(name, draw): Produced(derived, Role.BOUND.of(name)) for name in outputs}
        return files

    def _draws(self, workload: Entry[Workload]) -> tuple[int, ...]:
        if is_prepared(self._catalog, workload):
            return tuple(range(self._seeds if has_draws(self._catalog, workload) else 1))
        return draws_of(workload.document, self._seeds)

    def _files(
        self, test: Test, workload: Entry[Workload], kernel: Input | None, draws: tuple[int, ...]
    ) -> tuple[dict[str, Input], set[str]]:
        """Return the inputs of an audit of some draws, and the actions that run the kernel."""
        derived = [each["name"] for each in self._planner.judging(test)["outputs"] if each.get("derived")]
        files: dict[str, Input] = {**self._bounds_of(workload, draws), **self._own_bounds(workload, draws, derived)}
        if kernel:
            results = self._chains.run_draws(test, kernel, draws)
            return files | results, {each.action for each in results.values()}
        for draw in draws:
            made = add_inputs(self._planner.graph, workload, self._numpy, draw=draw)
            files |= {Role.ARGUMENT.of(name, draw): each for name, each in made.items()}
        return files, set()

    def _program_files(
        self, test: Test, workload: Entry[Workload], kernel: Input | None, draws: tuple[int, ...]
    ) -> tuple[dict[str, Input], set[str]]:
        """Return the same for a program in a foreign form; with ``sound-DRAW``, the results of the unchanged kernel."""
        files: dict[str, Input] = {}
        ran = set()
        for draw in draws:
            prepared = self._chains.prepare(test, workload, draw)
            files |= {of_draw(name, draw): Produced(prepared, name) for name in (INTERFACE, EXPECTED)}
            if kernel:
                sound = self._chains.run(test, self._chains.compile(test), draw=draw)
                ran.add(actual := self._chains.run(test, kernel, draw=draw))
                files[of_draw(RESULTS, draw)] = Produced(actual, RESULTS)
                files[of_draw(Role.SOUND, draw)] = Produced(sound, RESULTS)
        return files, ran

    def _bounds_of(self, workload: Entry[Workload], draws: tuple[int, ...]) -> dict[str, Input]:
        """Return the expected outputs for some draws, and the largest errors of sound computations."""
        key = (workload.name, draws)
        if key not in self._bounds:
            files: dict[str, Input] = {}
            for draw in draws:
                graph = self._planner.graph
                action = add_reference(graph, self._catalog, workload, self._numpy, draw=draw, tool="forward_error")
                for name in workload.document.outputs:
                    for role in (Role.EXPECTED, Role.BOUND):
                        files[role.of(name, draw)] = Produced(action, role.of(name))
            self._bounds[key] = files
        return self._bounds[key]
