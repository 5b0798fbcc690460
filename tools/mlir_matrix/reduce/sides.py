"""Prepare the actions from a level of a test to its end, so that only the candidate in them changes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir_matrix.actions.contract import Role
from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.actions.runtime.prepared import ARGUMENTS, INTERFACE
from mlir_matrix.base.digest import digest_bytes, digest_value
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.catalog.releases import number
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.plan.graph import File, Graph, Input, PlannedAction, Produced, compiler_params
from mlir_matrix.plan.parameters import seed_of_draw
from mlir_matrix.plan.request import Limits
from mlir_matrix.reduce.program import Interface
from mlir_matrix.reduce.workers import ActionRequest, Workers, composed
from mlir_matrix.reduction.tree import Module, copy_of, text_of, walk

#: Where the candidate is in its folder, and what judges its results.
CANDIDATE, REFERENCE, VERDICT = "in/candidate.mlir", "in/reference.py", "out/verdict.json"
#: The draws of the inputs.
DRAWS = (0, 1, 2)
#: The release of LLVM from which on inherent attributes stand apart, and names that changed then.
_PROPERTIES = 17
_OLDER_NAMES = {"operandSegmentSizes": "operand_segment_sizes", "resultSegmentSizes": "result_segment_sizes"}


@dataclass(frozen=True, kw_only=True)
class DisagreementBounds:
    """What outputs are held to where no reference is known: twice the bounds of the test."""

    atol: float
    rtol: float


@dataclass(frozen=True, kw_only=True)
class Side:
    """The actions from a level to the end of a test, in one release and pipeline."""

    actions: Sequence[PlannedAction]
    #: By their names in the actions.
    environments: Mapping[str, ResolvedEnvironment]
    #: Makes inputs, and judges results.
    numpy: ResolvedEnvironment
    #: Whether the release that takes candidates has properties in its generic form.
    reads_properties: bool
    #: What all candidates read, by path.
    files: Mapping[str, bytes]
    #: Of inputs and outputs of the actions, in the folder of a candidate.
    paths: Mapping[Input, str]

    @property
    def _warm(self) -> ResolvedEnvironment:
        """The environment of the process in which candidates begin, whose worker is warm."""
        used = [(each.tool, self.environments[each.environment]) for each in self.actions]
        if self.runs:
            used.append(("disagree", self.numpy))
        requests = [
            ActionRequest(label="", tool=tool, stage="", environment=environment, params={}, inputs={}, outputs={})
            for tool, environment in used
        ]
        return composed(requests)[0][0]

    @property
    def key(self) -> str:
        """The digest of what it does: of its actions, their compilers, and the files that are the same for all candidates."""
        compilers = [self.environments[action.environment].digest for action in self.actions]
        params = [[action.tool, action.params] for action in self.actions]
        files = {path: digest_bytes(data) for path, data in self.files.items()}
        return digest_value([compilers, params, files])

    @property
    def runs(self) -> bool:
        """Whether the last action calls a kernel."""
        return self.actions[-1].stage == Stage.RUN

    def output(self, name: str) -> str:
        """Return the path of an output of the last action."""
        return self.paths[Produced(self.actions[-1].id, name)]

    def text(self, module: Module, text: str) -> str:
        """Return a module as the release reads it that takes candidates. ``text``: in the generic form from LLVM 17 on."""
        return text if self.reads_properties else text_of(_without_properties(module))

    def printed(self, text: str, workers: Workers) -> str:
        """Return IR as the release prints it that takes candidates; empty if it cannot."""
        taker = self.actions[0]
        printing = ActionRequest(
            label="print",
            tool="reprint",
            stage=Stage.LOWER,
            environment=self._warm,
            params=compiler_params(taker),
            inputs={"ir": CANDIDATE},
            outputs={"generic": "out/generic.mlir", "custom": "out/custom.mlir"},
        )
        ended = workers.run([printing], {CANDIDATE: text.encode()}, wanted=["out/custom.mlir"])
        return ended.files["out/custom.mlir"].decode() if ended.ok else ""

    def with_passes(self, action: str, passes: str, *, patterns: bool) -> Side:
        """Return this side with another pipeline in one of its actions, and without the patterns of its step if so wanted."""

        def changed(each: PlannedAction) -> PlannedAction:
            inputs = {name: ref for name, ref in each.inputs.items() if patterns or name != "patterns"}
            return replace(each, params={**each.params, "passes": passes}, inputs=inputs)

        return replace(self, actions=[changed(each) if each.id == action else each for each in self.actions])

    def quick(self) -> Side:
        """Return this side with code that is not optimised."""
        return replace(self, actions=[_unoptimised(each) for each in self.actions])

    def requests(
        self, interface: Interface | None, *, draws: Sequence[int] = DRAWS, held: bool = False
    ) -> list[ActionRequest]:
        """Return the requests of a candidate. ``interface``: of one whose kernel runs. ``held``: against the contracts of kinds."""
        found: list[ActionRequest] = []
        for action in self.actions:
            if action.stage == Stage.RUN and interface is not None:
                found += self._runs(action, interface, draws)
            else:
                found.append(self._request(action, held=held))
        return found if held else _joined(found)

    def judges(
        self, interface: Interface, *, draws: Sequence[int] = DRAWS, reference: bool, bounds: DisagreementBounds | None
    ) -> ActionRequest:
        """Return the request that judges the results of draws."""
        inputs = {"source": REFERENCE} if reference else {}
        for draw in draws:
            inputs |= {Role.ARGUMENT.of(each["name"], draw): _argument(each["name"], draw) for each in interface.inputs}
            inputs |= {Role.ACTUAL.of(each["name"], draw): result(each["name"], draw) for each in interface.results}
            if not reference:
                inputs |= {Role.OTHER.of(each["name"], draw): other(each["name"], draw) for each in interface.results}
        inputs_params = [{key: each[key] for key in ("name", "shape", "dtype")} for each in interface.inputs]
        params = {"inputs": inputs_params, "outputs": list(interface.results), "draws": len(draws)}
        if bounds is not None:
            params |= {"atol": bounds.atol, "rtol": bounds.rtol}
        return ActionRequest(
            label="disagree",
            tool="disagree",
            stage=Stage.JUDGE,
            environment=self.numpy,
            params=params,
            inputs=inputs,
            outputs={"verdict": VERDICT},
        )

    def _request(self, action: PlannedAction, *, held: bool) -> ActionRequest:
        params = action.params if held else {name: value for name, value in action.params.items() if name != "contract"}
        return ActionRequest(
            label=action.label,
            tool=action.tool,
            stage=action.stage,
            environment=self.environments[action.environment],
            params=params,
            inputs={name: self.paths[ref] for name, ref in action.inputs.items()},
            outputs={name: self.paths[Produced(action.id, name)] for name in action.outputs},
        )

    def _runs(self, action: PlannedAction, interface: Interface, draws: Sequence[int]) -> list[ActionRequest]:
        """Return the requests that make inputs and call the kernel, for each draw."""
        kernel = {name: self.paths[ref] for name, ref in action.inputs.items() if ref in self.paths}
        arguments = [{**each, "dynamic": []} for each in interface.inputs]
        params = {**action.params, "arguments": arguments, "results": list(interface.results)}
        found = []
        for draw in draws:
            made = [{**each, "seed": seed_of_draw(each["seed"], draw)} for each in interface.inputs]
            paths = {each["name"]: _argument(each["name"], draw) for each in interface.inputs}
            inputs = ActionRequest(
                label="inputs",
                tool="inputs",
                stage=Stage.RUN,
                environment=self.numpy,
                params={"inputs": made, "dims": interface.dims},
                inputs={},
                outputs=paths,
            )
            call = ActionRequest(
                label=action.label,
                tool=action.tool,
                stage=action.stage,
                environment=self.environments[action.environment],
                params=params,
                inputs={**kernel, **{Role.ARGUMENT.of(name): path for name, path in paths.items()}},
                outputs={Role.RESULT.of(each["name"]): result(each["name"], draw) for each in interface.results},
            )
            found += [inputs, call] if paths else [call]
        return found


def side_of(session: Session, graph: Graph, last: str, source: Input, limits: Limits) -> Side:
    """Return the actions from a level to the last one. Run what does not depend on the level.

    ``source``: stands for the candidate. Raise UsageError for an environment that this machine cannot have, InfrastructureError
    where the machine fails.
    """
    needed = graph.needed_by(last)
    actions: list[PlannedAction] = []
    moving: set[str] = set()
    for name in needed:
        action = graph.actions[name]
        if source in action.inputs.values() or not moving.isdisjoint(action.sources):
            moving.add(name)
            actions.append(action)
    fixed = {name: graph.actions[name] for name in needed if name not in moving}
    done = run_graph(session, Graph(fixed), limits=limits)
    files: dict[str, bytes] = {}
    paths: dict[Input, str] = {source: CANDIDATE}
    for place, action in enumerate(actions):
        for name, ref in action.inputs.items():
            if ref in paths or (action.stage == Stage.RUN and _is_argument(name)):
                continue
            suffix, data = _read(session, graph, ref, done)
            paths[ref] = f"in/{place}-{suffix}"
            files[paths[ref]] = data
        paths |= {Produced(action.id, name): f"out/{place}-{path}" for name, path in action.outputs.items()}
    environments = _resolved(session, {"numpy", *(action.environment for action in actions)})
    return Side(
        actions=actions,
        environments=environments,
        numpy=environments["numpy"],
        reads_properties=all(map(_has_properties, session.releases(actions[0].environment))),
        files=files,
        paths=paths,
    )


def _read(session: Session, graph: Graph, ref: Input, done: Mapping[str, Done]) -> tuple[str, bytes]:
    """Return the name and the bytes of an input. Raise InfrastructureError if the action that gives it fails."""
    if isinstance(ref, File):
        return os.path.basename(ref.path), (session.catalog.roots[ref.root] / ref.path).read_bytes()
    result = done[ref.action].result
    if not result.ok:
        raise InfrastructureError(f"{ref.action}: {result.outcome['outcome']}: {result.outcome['reason']}")
    data = ActionCache(session.home.actions).read_blob(result.outputs[ref.output])
    return graph.actions[ref.action].outputs[ref.output], data


def _is_argument(name: str) -> bool:
    """Return whether an input of a run is an argument of the kernel, or of a program in a foreign form."""
    return name in (INTERFACE, ARGUMENTS) or name.startswith(Role.ARGUMENT.of(""))


def _has_properties(used: tuple[Entry[Component], Release]) -> bool:
    """Return whether a release of LLVM has properties in its generic form; other components do not matter."""
    entry, release = used
    return entry.name != "llvm" or number(release.release)[0] >= _PROPERTIES


def _without_properties(module: Module) -> Module:
    """Return a module as releases before LLVM 17 read it, which have attributes only."""
    older = copy_of(module)
    for each in walk(older.operation):
        each.attributes |= {_OLDER_NAMES.get(name, name): value for name, value in each.properties.items()}
        each.properties = {}
    return older


def _unoptimised(action: PlannedAction) -> PlannedAction:
    """Return an action that generates code without LLVM's optimiser; any other as it is."""
    parameters = action.params.get("parameters", {})
    if action.tool not in ("object", "compile_jit") or "opt-level" not in parameters:
        return action
    return replace(action, params={**action.params, "parameters": {**parameters, "opt-level": 0}})


def _joined(requests: Sequence[ActionRequest]) -> list[ActionRequest]:
    """Join steps of passes that follow each other in one environment: to start a compiler takes longer than its passes.

    The last step stays alone, because a failure is that of a step.
    """
    found: list[ActionRequest] = []
    for each in requests:
        before = found[-1] if found else None
        if before and each is not requests[-1] and _continues(before, each):
            passes = ",".join(filter(None, (str(before.params["passes"]), str(each.params["passes"]))))
            found[-1] = replace(each, params={**each.params, "passes": passes}, inputs=before.inputs)
        else:
            found.append(each)
    return found


def _continues(before: ActionRequest, after: ActionRequest) -> bool:
    """Return whether a request runs more passes on what the one before gives, in the same compiler."""
    is_next = after.inputs.get("ir") == before.outputs.get("ir")
    return is_next and _is_plain(before) and _is_plain(after) and _but_passes(before) == _but_passes(after)


def _is_plain(request: ActionRequest) -> bool:
    """Return whether a request runs passes alone, without a schedule or patterns."""
    return request.tool == "passes" and request.inputs.keys() == {"ir"}


def _but_passes(request: ActionRequest) -> tuple[str, dict[str, object]]:
    params = {name: value for name, value in request.params.items() if name != "passes"}
    return request.environment.digest, params


def _argument(name: str, draw: int) -> str:
    return f"out/{draw}-{Role.ARGUMENT.of(name)}.npy"


def result(name: str, draw: int) -> str:
    """Return the path of a result of a kernel."""
    return f"out/{draw}-{Role.RESULT.of(name)}.npy"


def other(name: str, draw: int) -> str:
    """Return the path of that result of the good side, for a judge without a reference."""
    return f"in/{draw}-{Role.OTHER.of(name)}.npy"


def _resolved(session: Session, names: set[str]) -> dict[str, ResolvedEnvironment]:
    """Return environments. Raise UsageError for one that this machine cannot have."""
    found = session.environments(names)
    resolved = {name: each for name, each in found.items() if isinstance(each, ResolvedEnvironment)}
    for name in found.keys() - resolved.keys():
        raise UsageError(f"environment {name} is unavailable on this machine: {getattr(found[name], 'reason', '')}")
    return resolved
