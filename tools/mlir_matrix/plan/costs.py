"""Add the actions that count what a test costs: its code, what a call executes, and the operations at each level."""

from __future__ import annotations

from dataclasses import dataclass

from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.actions.params import CostsParams, InspectParams
from mlir_matrix.base.names import with_pins
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.models.base import Target
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.expansion import Test
from mlir_matrix.plan.chains import Chains
from mlir_matrix.plan.graph import Input, Produced, add_print, compiler_params
from mlir_matrix.plan.run_kernels import BENCH, TimedProgram

_LINALG = "linalg"
#: The ends of the file names of objects, and of IR that MLIR parses.
_OBJECT, _MLIR = ".o", ".mlir"
#: CPUs whose cycles llvm-mca estimates, by the first part of a target's triple.
_CPUS = {
    "x86_64": ["skylake", "znver4"],
    "aarch64": ["cortex-a76", "neoverse-v2"],
    "riscv64": ["sifive-p670"],
}
_COUNTED = ("instructions", "d1_misses", "ll_misses", "allocations", "peak_bytes", "total_bytes")
_READ = ("code_bytes", "data_bytes", "vector_share")


@dataclass(frozen=True, kw_only=True)
class PlannedCosts:
    """What is known of the costs of a test before it runs."""

    #: The action that gathers the exact costs.
    action: str
    #: What the target runs. Tests with equal bytes here cost the same.
    artifact: Input
    #: The actions that compile it, in order.
    compiled_by: tuple[str, ...]
    #: How to time it, or why it cannot be timed.
    timed: TimedProgram | str
    #: The generic text of the first IR at linalg, before steps fuse its operations; None without any.
    linalg: Input | None
    #: True if the code depends on the CPU of the machine that compiles it: another machine counts something else.
    native: bool


class CostPlanner:
    """Adds the actions of costs to the graph of the tests."""

    def __init__(self, chains: Chains, catalog: Catalog, pins: Pins) -> None:
        self._chains, self._catalog = chains, catalog
        self._pins = pins

    def add(self, test: Test, verdict: str) -> PlannedCosts:
        """Add the actions that count the costs of a test, after the action ``verdict`` that judges it."""
        chains, target = self._chains, self._catalog.targets[test.target].document
        artifact = chains.compile(test)
        absent: dict[str, str] = {}
        # A test that fails costs nothing: it inherits that failure.
        judged = Produced(verdict, next(iter(chains.graph.actions[verdict].outputs)))
        inputs: dict[str, Input] = {"verdict": judged}
        detailed = test.cost is None or test.cost.detailed
        texts = self._texts(test) if detailed else []
        levels = dict(texts)
        inputs |= {f"level-{level}": text for level, text in levels.items()}
        timed = chains.without_timer(test) or chains.bench(test, artifact)
        counted = self._count(timed, target, absent)
        if counted is not None:
            inputs["counts"] = counted
        if inspected := self._inspect(
            artifact, test.known_route.ends, target, timed, counted, absent, detailed=detailed
        ):
            inputs["inspected"] = inspected
        action = chains.graph.add(
            f"costs/{test.workload}",
            tool="costs",
            stage=Stage.JUDGE,
            environment=self._pins.reference("python"),
            params=CostsParams(absent=absent),
            inputs=inputs,
            outputs={"costs": "costs.json"},
        )
        compiled_by = chains.graph.needed_by(artifact.action) if isinstance(artifact, Produced) else []
        native = any(chains.graph.actions[name].native for name in compiled_by)
        return PlannedCosts(
            action=action,
            artifact=artifact,
            compiled_by=tuple(compiled_by),
            timed=timed,
            linalg=next((text for kind, text in texts if kind == _LINALG), None),
            native=native,
        )

    def _texts(self, test: Test) -> list[tuple[str, Input]]:
        """Return the kind and the generic text of the IR that each step takes which MLIR reads, in the order of the steps."""
        chains = self._chains
        found: list[tuple[str, Input]] = []
        artifact = chains.enter(test)
        for number, step in enumerate(test.known_route.steps):
            before, artifact = artifact, chains.lower(test, number, artifact, number + 1)
            assert isinstance(artifact, Produced)
            by = chains.graph.actions[artifact.action]
            # Importers of other formats have MLIR's bindings, too.
            if compiler_params(by) and self._catalog.kinds[step.takes].document.file.endswith(_MLIR):
                found.append((step.takes, Produced(add_print(chains.graph, before, by), "generic")))
        return found

    def _count(self, timed: TimedProgram | str, target: Target, absent: dict[str, str]) -> Produced | None:
        """Add the action that counts what a call executes; None if callgrind cannot, with the reason in ``absent``."""
        reason = _uncounted(timed, target)
        if reason or isinstance(timed, str):
            absent |= dict.fromkeys(_COUNTED, reason)
            return None
        action = self._chains.graph.add(
            "count",
            tool="count",
            stage=Stage.RUN,
            environment=_fixed(self._pins, "valgrind"),
            params=timed.params,
            inputs=timed.inputs,
            outputs={"counts": "counts.json"},
        )
        return Produced(action, "counts")

    def _inspect(
        self,
        artifact: Input,
        kind: str,
        target: Target,
        timed: TimedProgram | str,
        counted: Produced | None,
        absent: dict[str, str],
        *,
        detailed: bool,
    ) -> Produced | None:
        """Add the action that reads the object; None for an artifact of another kind, with the reason in ``absent``."""
        triple = target.triple or ""
        cpus = _CPUS.get(triple.partition("-")[0], [])
        file = self._catalog.kinds[kind].document.file
        if not file.endswith(_OBJECT) or not cpus:
            reason = f"objects of {', '.join(_CPUS)} can be read, and this is {file} of {triple or 'no triple'}"
            absent |= dict.fromkeys(_READ, reason)
            return None
        inputs: dict[str, Input] = {"object": artifact}
        if counted is not None and not isinstance(timed, str):
            inputs |= {"counts": counted, "kernel": timed.inputs["kernel"]}
        action = self._chains.graph.add(
            "inspect",
            tool="inspect_object",
            stage=Stage.CODEGEN,
            environment=_fixed(self._pins, "object-tools"),
            params=InspectParams(triple=triple, cpus=cpus if detailed else []),
            inputs=inputs,
            outputs={"inspected": "inspected.json"},
        )
        return Produced(action, "inspected")


def _fixed(pins: Pins, environment: str) -> str:
    """Return an environment that no pin of the command line changes: a count must not depend on the compiler under test."""
    if pins.reference(environment) == environment:
        return environment
    known = pins.catalog.default_pins(environment)
    return with_pins(environment, ",".join(f"{name}={known[name]}" for name in pins.releases(environment)))


def _uncounted(timed: TimedProgram | str, target: Target) -> str:
    """Return why callgrind cannot count a program; empty if it can."""
    triple = str(target.triple or "")
    if triple and (target.runner or not triple.startswith("x86_64")):
        return f"callgrind counts programs of x86_64, and this is {triple}"
    if isinstance(timed, str):
        return timed
    return "" if timed.tool == BENCH else "it is called by a runtime, whose instructions would count, too"


def has_costs(test: Test) -> bool:
    """Return whether a test compiles a program whose costs can be counted: neither IR tests nor properties do."""
    route = test.route
    return not (test.is_ir or test.tested_property or route is None or route.judges)
