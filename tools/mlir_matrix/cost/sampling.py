"""Time programs in one session, two in turn: what every comparison of times is made of."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from mlir_matrix.actions.contract import Role
from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.actions.params import TimingParams
from mlir_matrix.actions.runtime.timing import least_busy_core
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.names import printable
from mlir_matrix.base.text import shortened
from mlir_matrix.environments.scratch import temporary_folder
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache, Result
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.plan.graph import File, Graph, Input, Produced
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.run_kernels import BENCH

K = TypeVar("K")
#: Seconds of a batch of calls: thousands of times what the clock can tell, and shorter than most times between two disturbances.
_BATCH_S = 0.00025
_SAMPLES = {"samples": "samples.json"}


class _Times(TypedDict):
    """The metrics of a program that times itself (``api.timed``), which a catalog may have written."""

    batch_ns: Annotated[list[Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]], Field(min_length=1)]
    calls: Annotated[int, Field(strict=True, gt=0)]


_TIMES = TypeAdapter(_Times)


@dataclass(frozen=True, kw_only=True)
class Timed:
    """A program to time, as :class:`~mlir_matrix.plan.run_kernels.TimedProgram`, with files instead of a plan's inputs."""

    tool: str
    environment: str
    params: Mapping[str, Any]
    files: Mapping[str, Path]
    outputs: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class WantedSamples:
    """Samples of two programs in turn, or of one: with ``second`` None each number of the first stands twice."""

    first: Timed
    second: Timed | None
    pairs: int

    @property
    def sides(self) -> list[Timed]:
        return [self.first] if self.second is None else [self.first, self.second]

    @property
    def are_kernels(self) -> bool:
        return all(side.tool == BENCH for side in self.sides)


def sample(
    session: Session, first: Timed, second: Timed | None, pairs: int, limits: Limits
) -> list[tuple[float, float]]:
    """Return the nanoseconds of a call of two programs, ``pairs`` times, the samples in turn: A B B A ….

    Raise UsageError if a program fails or does not time itself, InfrastructureError.
    """
    (found,) = sample_all(session, {0: WantedSamples(first=first, second=second, pairs=pairs)}, limits).values()
    if isinstance(found, str):
        raise UsageError(found)
    return found


def sample_all(
    session: Session, wanted: Mapping[K, WantedSamples], limits: Limits
) -> dict[K, list[tuple[float, float]] | str]:
    """Return the samples of several comparisons, one after the other, or why a program cannot be timed.

    Both programs get the arguments of the first, if both are kernels with the driver. Raise InfrastructureError.
    """
    kernels = {name: each for name, each in wanted.items() if each.are_kernels}
    found: dict[K, list[tuple[float, float]] | str] = {}
    with temporary_folder(session.home) as folder:
        together = _Samples(session, limits, folder)
        actions = {name: [[together.add_kernels(each.sides, each.pairs, {})]] for name, each in kernels.items()}
        found |= together.run(actions)
        for name in wanted.keys() - kernels.keys():
            # Alone, so that no other program runs between its samples.
            alone = _Samples(session, limits, folder)
            found |= alone.run({name: alone.add_chained(wanted[name].sides, wanted[name].pairs)})
    return {name: found[name] for name in wanted}


class _Samples:
    """One graph, whose actions run one after the other."""

    def __init__(self, session: Session, limits: Limits, folder: Path) -> None:
        """``folder``: for copies of files with the names that programs expect."""
        roots = (*session.catalog.roots, Path("/"))
        self._session = replace(session, catalog=replace(session.catalog, roots=roots))
        self._limits = replace(limits, jobs=1)
        self._graph = Graph()
        self._folder = folder
        # One for both sides, although each sample has a process of its own.
        self._timing = TimingParams(batch_s=_BATCH_S, core=least_busy_core(), nonce="")
        self._nonce = secrets.token_hex(8)

    def add_chained(self, sides: Sequence[Timed], pairs: int) -> list[list[str]]:
        """Add an action for each sample, which waits for the one before it. Return them by pair and side."""
        actions: list[list[str]] = []
        waits: dict[str, Input] = {}
        for number in range(pairs):
            added: dict[int, str] = {}
            for at in sorted(range(len(sides)), reverse=bool(number % 2)):
                side = sides[at]
                added[at] = self.add_kernels([side], 1, waits) if side.tool == BENCH else self._add_own(side, waits)
                waits = {"after": Produced(added[at], next(iter(self._graph.actions[added[at]].outputs)))}
            actions.append([added[at] for at in range(len(sides))])
        return actions

    def add_kernels(self, sides: Sequence[Timed], pairs: int, waits: Mapping[str, Input]) -> str:
        """Add the action that times kernels, each sample in a process of its own. The arguments are those of the first."""
        names = ["kernel"] if len(sides) == 1 else ["kernel-0", "kernel-1"]
        inputs: dict[str, Input] = {name: self._file(path) for name, path in sides[0].files.items() if name != "kernel"}
        inputs |= {name: self._file(side.files["kernel"]) for name, side in zip(names, sides, strict=True)}
        params = {**sides[0].params, "timing": self._new_timing(), "pairs": pairs}
        return self._add("time_pairs", sides[0].environment, params, {**inputs, **waits}, _SAMPLES)

    def _add_own(self, side: Timed, waits: Mapping[str, Input]) -> str:
        """Add the action by which a program times itself."""
        inputs = {name: self._named_file(side, name) for name in side.files}
        params = {**side.params, "timing": self._new_timing()}
        return self._add(side.tool, side.environment, params, {**inputs, **waits}, side.outputs)

    def _add(
        self,
        tool: str,
        environment: str,
        params: Mapping[str, Any],
        inputs: Mapping[str, Input],
        outputs: Mapping[str, str],
    ) -> str:
        return self._graph.add(
            "time", tool=tool, stage=Stage.RUN, environment=environment, params=params, inputs=inputs,
            outputs=outputs, native=True,
        )  # fmt: skip

    def _new_timing(self) -> TimingParams:
        """Return parameters that no action has had, so that no cache has the times."""
        return {**self._timing, "nonce": f"{self._nonce}-{len(self._graph.actions)}"}

    def _file(self, path: Path) -> File:
        root = len(self._session.catalog.roots) - 1
        return File(root, path.absolute().relative_to("/").as_posix())

    def _named_file(self, side: Timed, name: str) -> File:
        """Return an input under a name that ends as in a run, by which runtimes know its format."""
        path, suffix = side.files[name], ""
        if name == "artifact":
            suffix = Path(self._session.catalog.kinds[side.params["kind"]].document.file).suffix
        elif name.startswith(Role.ARGUMENT.of("")):
            suffix = ".npy"
        if not suffix or path.suffix == suffix:
            return self._file(path)
        copy = self._folder / f"{path.name}{suffix}"
        if not copy.exists():
            shutil.copyfile(path, copy)
        return self._file(copy)

    def run(self, actions: Mapping[K, list[list[str]]]) -> dict[K, list[tuple[float, float]] | str]:
        """Run the added actions. Return the samples of each comparison, or why its program cannot be timed.

        ``actions``: those of a comparison, by pair and side; or one alone that has all samples.
        """
        done = run_graph(self._session, self._graph, limits=self._limits) if actions else {}
        found: dict[K, list[tuple[float, float]] | str] = {}
        for name, of_pairs in actions.items():
            results = [[done[action].result for action in pair] for pair in of_pairs]
            failures = [_failure(result) for pair in results for result in pair if not result.ok]
            if failures:
                found[name] = failures[0]
                continue
            try:
                rows = [row for pair in results for row in self._rows(pair)]
            except UsageError as error:
                found[name] = str(error)
            else:
                found[name] = [(row[0], row[-1]) for row in rows]
        return found

    def _rows(self, pair: Sequence[Result]) -> list[list[float]]:
        """Return the nanoseconds by pair and side: those of an action with all samples, or of one pair."""
        if len(pair) == 1 and "samples" in pair[0].outputs:
            rows: list[list[float]] = self._samples(pair[0])["ns"]
            return rows
        return [[self._ns(result) for result in pair]]

    def _ns(self, result: Result) -> float:
        if "samples" in result.outputs:
            return float(self._samples(result)["ns"][0][0])
        if "batch_ns" not in result.metrics:
            raise UsageError("the program does not time itself; a target's Python file does so by api.timed")
        try:
            times = _TIMES.validate_python(result.metrics)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            value = printable(shortened(str(first["input"]), 60))
            raise UsageError(f"the program times itself wrongly: {place}: {value}: {first['msg']}") from None
        return min(times["batch_ns"]) / times["calls"]

    def _samples(self, result: Result) -> dict[str, Any]:
        data = ActionCache(self._session.home.actions).read_blob(result.outputs["samples"])
        found: dict[str, Any] = json.loads(data)
        return found


def _failure(result: Result) -> str:
    """Return why a program cannot be timed. Raise InfrastructureError if the machine failed."""
    outcome = result.outcome
    reason = f"the program cannot be timed: {outcome['outcome']}: {outcome['reason']}"
    if outcome["outcome"] == Outcome.INFRA_ERROR:
        raise InfrastructureError(reason)
    return reason
