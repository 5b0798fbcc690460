"""Make the results of tests from finished actions: outcomes, verdicts, and whether they are expected."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from mlir_matrix.actions.contract import INPUT_FOLDER, Role
from mlir_matrix.actions.outcomes import NotRun, Outcome, Stage, judged_by
from mlir_matrix.actions.runtime.child import failure
from mlir_matrix.actions.runtime.collect import is_measurable
from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.text import catalog_options
from mlir_matrix.execute.action_cache import LostBlob
from mlir_matrix.execute.job import Done
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.quarantine import ActiveQuarantine
from mlir_matrix.plan.graph import BUILDING, ActionId, File, Graph, PlannedAction, Produced
from mlir_matrix.plan.levels import is_level, level_names, output_of
from mlir_matrix.plan.parameters import found_place
from mlir_matrix.results.cost_text import cost_reason, costs_that_are
from mlir_matrix.results.locations import Locations, locations_of
from mlir_matrix.results.repeats import without_copy
from mlir_matrix.results.results import NOT_RUN, TestResult, weak_words

if TYPE_CHECKING:
    from mlir_matrix.compare.documents import Verdict
    from mlir_matrix.plan.documents import ExpectedOutcome
    from mlir_matrix.results.documents import Costs, DecidingStep, InQuarantine

#: A function of test, outcome and whether it is expected. It returns more fields of a result: command to repeat it, folder.
Annotate = Callable[[str, Outcome, bool], Mapping[str, Any]]
#: The judge's advice for a missing golden. The judge does not know the catalogs.
_REMEDY = "matrix golden update --write"
_ONE_POISON = "; its kernel ran under one poison value only: it took over 5 s of CPU time, or its target has no fork"
#: A frame of LLVM's stack dump in the form of ``actions.runtime.programs``, and a frame of Python.
_STACK = re.compile(r"^#  (.+)", re.MULTILINE)
_TRACEBACK = re.compile(r'^  File "(.+)", line (\d+), in (.+)', re.MULTILINE)
#: A line of a reference in a traceback.
_FRAME = re.compile(r'^ *File "reference\.py", line (\d+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Chain:
    """The cost and the environments of an action and of all actions that it depends on."""

    duration_s: float
    cached: bool
    environments: frozenset[str]
    #: The smallest number of poison values that a kernel ran under; 0 without a kernel.
    poisons: int = 0
    #: Which numbers of the program were made smaller.
    scaled: str = ""
    #: The GPU that ran it.
    device: str = ""
    #: The file of a catalog that is imported.
    source: str = ""
    #: The first action that failed.
    failed: str = ""
    #: The steps, in order, up to the one that failed.
    steps: tuple[str, ...] = ()
    #: The actions that gave IR, in order.
    levels: tuple[str, ...] = ()


def nothing_more(_test: str, _outcome: Outcome, _expected: bool) -> Mapping[str, Any]:
    """Add nothing to a result."""
    return {}


class ResultMaker:
    """Makes results of tests from finished actions."""

    def __init__(
        self,
        graph: Graph,
        *,
        pins: Mapping[str, Mapping[str, str]],
        digests: Mapping[str, str],
        read_blob: Callable[[str], bytes],
        roots: Sequence[Path] = (),
        annotate: Annotate = nothing_more,
    ) -> None:
        """``pins`` has component releases by environment, ``digests`` the digests of environments; ``roots`` are the catalogs."""
        self._annotate = annotate
        self._graph = graph
        self._pins = pins
        self._digests = digests
        self._read_blob = read_blob
        self._roots = roots
        self._chains: dict[str, _Chain] = {}
        self._failed: set[str] = set()
        self._outputs: dict[str, Mapping[str, str]] = {}
        self._alone: dict[str, frozenset[str]] = {}
        #: By digest: many tests have the same verdict.
        self._verdicts: dict[str, dict[str, Any]] = {}
        self._known: dict[frozenset[str], tuple[dict[str, str], dict[str, str]]] = {}
        #: By levels, so that tests of many targets share it.
        self._ir: dict[tuple[str, ...], tuple[tuple[str, str], ...]] = {}

    def note(self, action: str, done: Done) -> None:
        """Record the cost of an action, after those of the actions that it depends on.

        If the action inherits a failure, some of these may be unfinished. Their environments count, too. The cost is then only
        that of the failure, so that it does not depend on other finished actions.
        """
        spec = self._graph.actions[action]
        # Building a target's libraries, once for all tests, is not part of a test.
        duration = 0.0 if spec.tool in BUILDING else done.result.usage.get("wall_s", 0.0)
        cached = done.cached
        environments = self._alone.setdefault(spec.environment, frozenset({spec.environment}))
        poisons = [found] if isinstance(found := done.result.metrics.get("poisons"), int) else []
        scaled = str(done.result.metrics.get("scaled", ""))
        device = str(done.result.metrics.get("device", ""))
        read = spec.inputs.get("source")
        source = read.path if isinstance(read, File) else ""
        sources = [self._chains.get(source) or self._unfinished(source) for source in spec.sources]
        inherited = None if done.result.ok else next((before for before in sources if before.failed), None)
        for before in [inherited] if inherited else sources:
            duration += before.duration_s
            cached = cached and before.cached
            poisons += [before.poisons] if before.poisons else []
            scaled, device = scaled or before.scaled, device or before.device
            source = source or before.source
        for before in sources:
            if environments <= before.environments:
                environments = before.environments
            else:
                environments |= before.environments
        self._outputs[action] = done.result.outputs
        self._failed |= set() if done.result.ok else {action}
        failed = "" if done.result.ok else inherited.failed if inherited else action
        steps = inherited.steps if inherited else max((before.steps for before in sources), key=len, default=())
        is_step = "/" not in spec.label and spec.tool not in ("compile_jit", "link")
        if is_step and inherited is None:
            steps = (*steps, spec.label)
        levels = inherited.levels if inherited else _merged([before.levels for before in sources])
        # Code differs for each target: its digests would make a run ten times as large.
        if done.result.ok and spec.stage != Stage.CODEGEN and is_level(spec):
            levels = (*levels, action)
        poison = min(poisons, default=0)
        self._chains[action] = _Chain(
            duration, cached, environments, poison, scaled, device, source, failed, steps, levels
        )

    def _unfinished(self, action: str) -> _Chain:
        needed = (self._graph.actions[name].environment for name in self._graph.needed_by(action))
        return _Chain(0.0, True, frozenset(needed))

    def not_run(self, test: Test, outcome: NotRun, reason: str) -> TestResult:
        """Return the result of a test that did not run."""
        more = self._annotate(test.id, outcome, True)
        return TestResult(**_names(test), **more, outcome=outcome, stage="", expected=True, reason=reason)

    def finished(self, test: Test, action: str, done: Done, costs: Costs | None = None) -> TestResult:
        """Return the result of a test whose last action is finished; ``costs``: what it costs, judged by its goldens."""
        outcome: Mapping[str, str] = done.result.outcome
        verdict: dict[str, Any] | None = None
        metrics: dict[str, Any] = {}
        chain = self._chains[action]
        if done.result.ok and "verdict" not in done.result.outputs:
            # FileCheck, for example, writes no verdict when it succeeds.
            outcome = {"outcome": "pass", "stage": "judge", "reason": _judged_by(self._graph.actions[action])}
        elif done.result.ok and test.route and test.route.judges:
            outcome = self._own_verdict(done.result.outputs["verdict"])
        elif done.result.ok:
            try:
                verdict = self._verdict(done.result.outputs["verdict"], test.workload)
            except LostBlob:
                # The executor runs the action again after this error.
                raise
            except OSError as error:
                outcome = {
                    "outcome": Outcome.INFRA_ERROR,
                    "stage": "judge",
                    "reason": f"the cached verdict is lost: {error}",
                }
            else:
                if test.weak_fails and weak_outputs(verdict):
                    verdict = _refused(verdict, test.weak_fails)
                outcome = {"outcome": verdict["outcome"], "stage": "judge", "reason": verdict["reason"]}
                outcome["diagnostics"] = verdict.get("diagnostics", "")
                metrics = dict(verdict.get("metrics", {}))
        elif reason := self._broken_reference(chain.failed, done):
            outcome = {**outcome, "outcome": Outcome.INFRA_ERROR, "stage": "judge", "reason": reason}
            verdict = {"outcome": Outcome.INFRA_ERROR, "reason": reason, "outputs": [], "metrics": {}}
        outcome, verdict = _with_costs(test, costs, outcome, verdict)
        if chain.poisons:
            metrics["poisons"] = chain.poisons
        reason, diagnostics = _reason(chain, outcome), _in_source(chain.source, outcome.get("diagnostics", ""))
        pins, environments = self._environments(chain.environments)
        word = Outcome(outcome["outcome"])
        expected, expectation = _compare(test, word)
        # An expectation of a mismatch must not hide that no comparison was possible.
        expected = expected and (verdict is None or is_measurable(verdict)) and not self._lacks_golden(action, done)
        more = self._annotate(test.id, word, expected)
        # The frame in which a time-out occurs is random.
        frame = "" if word == Outcome.TIMED_OUT else innermost_frame(diagnostics)
        locate = self._locations(test, action, done, str(more.get("kept", "")))
        reason, diagnostics = locate(reason), locate(diagnostics)
        return TestResult(
            **_names(test),
            **more,
            outcome=word,
            stage=Stage(outcome["stage"]),
            expected=expected,
            reason=reason,
            position=locate.first(f"{reason}\n{diagnostics}"),
            duration_s=chain.duration_s,
            cached=chain.cached,
            pins=pins,
            environments=environments,
            metrics=metrics,
            costs=costs,
            expectation=expectation,
            verdict=cast("Verdict | None", verdict),
            diagnostics=diagnostics,
            log=str(done.result.metrics.get("log", "")) if not done.result.ok else "",
            weak=weak_outputs(verdict) if verdict else {},
            steps=list(chain.steps),
            ir=self._ir_after(chain.levels),
            wrong_output=self._wrong_output(action) if verdict and word == Outcome.MISMATCH else "",
            scaled=chain.scaled,
            device=chain.device,
            step=_step(chain.failed or action) if word != Outcome.PASS else None,
            signal=outcome.get("signal", ""),
            frame=frame,
        )

    def _locations(self, test: Test, action: str, done: Done, kept: str) -> Locations:
        """Return the files that the action that failed has read, or the one that judges by itself; none if none failed."""
        if done.result.ok and not (test.route and test.route.judges):
            return Locations({})
        chain = self._chains[action]
        found = locations_of(self._graph, action, chain.failed or action, self._roots, kept)
        # The catalog's path already stands for copies of a program.
        return Locations({**found.files, chain.source: chain.source}) if chain.source else found

    def _wrong_output(self, action: str) -> str:
        """Return the digest of the outputs that an action has judged; nothing if they are not of a program."""
        refs = Role.ACTUAL.among(self._graph.actions[action].inputs)
        digests = {
            name: self._outputs[ref.action][ref.output] for name, ref in refs.items() if isinstance(ref, Produced)
        }
        return digest_value(digests) if digests else ""

    def _ir_after(self, levels: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        """Return the names and digests of levels."""
        if levels not in self._ir:
            actions = [self._graph.actions[name] for name in levels]
            outputs = [self._outputs[action.id].get(output_of(action)) for action in actions]
            named = zip(level_names(actions), outputs, strict=True)
            # Bazel keeps what it does not need on other machines, and then has no digest of it.
            self._ir[levels] = tuple((name, digest) for name, digest in named if digest is not None)
        return self._ir[levels]

    def _lacks_golden(self, action: str, done: Done) -> bool:
        """Return whether the expected output could not be computed, so that no program under test failed."""
        failed = not done.result.ok and done.result.outcome["stage"] == "judge"
        spec = self._graph.actions[action]
        # A step that checks the IR also fails at this stage, before the program runs.
        runs = {ref.action for ref in Role.ACTUAL.among(spec.inputs).values() if isinstance(ref, Produced)}
        return failed and spec.tool == "judge" and self._failed.isdisjoint(runs)

    def _broken_reference(self, failed: str, done: Done) -> str | None:
        """Return position and reason if a reference failed. Then the files of the catalog are wrong."""
        if not failed or done.result.outcome["outcome"] == Outcome.TIMED_OUT:
            return None
        return reference_failure(self._graph, {failed: done}, failed, self._roots)

    def _own_verdict(self, digest: str) -> dict[str, str]:
        """Return the verdict of a target whose own tool judges."""
        text = self._read_blob(digest)
        try:
            found = json.loads(text)
            signal = {"signal": str(found["signal"])} if found["signal"] else {}
            return failure(
                Stage(found["stage"]), Outcome(found["outcome"]), found["reason"], found["diagnostics"], **signal
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return failure(
                Stage.JUDGE, Outcome.INFRA_ERROR, "the target's tool must write its verdict by write_verdict"
            )

    def _verdict(self, digest: str, workload: str) -> dict[str, Any]:
        if digest not in self._verdicts:
            verdict = json.loads(self._read_blob(digest))
            for part in (verdict, *verdict["outputs"]):
                for key in {"reason", "layer"} & part.keys():
                    part[key] = found_place(self._roots, part[key])
            self._verdicts[digest] = verdict
        found = self._verdicts[digest]
        return found if is_measurable(found) else self._with_remedy(found, workload)

    def _with_remedy(self, verdict: dict[str, Any], workload: str) -> dict[str, Any]:
        """Return a verdict whose advice for a missing golden names the workload and the catalogs."""
        remedy = shlex.join([*_REMEDY.split(), workload, *catalog_options(self._roots[1:])])

        def advised(part: dict[str, Any]) -> dict[str, Any]:
            return {**part, "reason": part["reason"].replace(_REMEDY, remedy)} if "reason" in part else part

        return {**advised(verdict), "outputs": [advised(each) for each in verdict["outputs"]]}

    def _environments(self, names: frozenset[str]) -> tuple[dict[str, str], dict[str, str]]:
        if names not in self._known:
            releases: dict[str, dict[str, None]] = {}
            for name in sorted(names):
                for component, release in self._pins.get(name, {}).items():
                    releases.setdefault(component, {})[release] = None
            # Steps of a test may use several releases of one component.
            pins = {component: ", ".join(found) for component, found in releases.items()}
            self._known[names] = (pins, {name: self._digests[name] for name in sorted(names) if name in self._digests})
        return self._known[names]


def _merged(parts: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the actions of all parts, each once; most actions have one part."""
    found = max(parts, key=len, default=())
    for part in parts:
        if part and part is not found:
            found = tuple(dict.fromkeys((*found, *part)))
    return found


def _judged_by(action: PlannedAction) -> str:
    """Return which FileCheck an IR test passed."""
    return judged_by(action.params.get("filecheck", "")) if action.tool == "irtest" else ""


def _reason(chain: _Chain, outcome: Mapping[str, str]) -> str:
    """Return the reason of an outcome, with additions from its chain of actions."""
    reason = _in_source(chain.source, _in_step(chain.failed, outcome))
    if outcome["outcome"] == Outcome.IMPORT_FAILED and chain.scaled not in reason:
        reason += f"; scaled: {chain.scaled}"
    return reason + (_ONE_POISON if chain.poisons == 1 else "")


def _in_step(failed: str, outcome: Mapping[str, str]) -> str:
    """Return the reason of an outcome, with the step that failed; other actions are named ``import/…``, ``run/…``."""
    reason, name = str(outcome.get("reason", "")), _step(failed)["name"]
    word = outcome["outcome"]
    # Each action may take too long; the others name what failed.
    is_own = not name or ("/" in name and word != Outcome.TIMED_OUT) or word in NOT_RUN or word == Outcome.INFRA_ERROR
    return reason if is_own else f"{name}: {reason}"


def _in_source(path: str, text: str) -> str:
    """Return a text in which a catalog's path replaces the name of the copy that an action reads."""
    copy = rf"(?<![\w./-])(?:{INPUT_FOLDER}/)?source{re.escape(PurePosixPath(path).suffix)}(?![\w-]|\.\w)"
    return re.sub(copy, lambda _: path, text) if path else text


def _step(action: str) -> DecidingStep:
    return {"name": ActionId.parse(action).label, "action": action}


def innermost_frame(diagnostics: str) -> str:
    """Return the innermost frame of a stack dump (``mlir::foo(int)``) or of a Python traceback (``f (x.py:3)``), or nothing."""
    if found := _STACK.search(diagnostics):
        return found[1]
    frames = _TRACEBACK.findall(diagnostics)
    return "{2} ({0}:{1})".format(*frames[-1]) if frames else ""


def weak_outputs(verdict: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return by output the trivial outputs that would also pass, unless the workload states a reason."""
    outputs = verdict["outputs"] if verdict["outcome"] == Outcome.PASS else ()
    return {each["name"]: each["weak"] for each in outputs if "weak" in each and "weak_reason" not in each}


def _refused(verdict: Mapping[str, Any], position: str) -> dict[str, Any]:
    """Return the verdict of a weak pass as a mismatch, for a suite that refuses weak passes."""
    weak = weak_outputs(verdict)
    reason = (
        f"weak: outputs that need no program would also pass ({weak_words(weak)}), and {position} refuses that; "
        "change inputs or tolerance, or state a reason by 'weak' at the workload's output"
    )
    wrong = {"outcome": "mismatch", "measurable": False, "reason": reason}
    outputs = [{**each, **wrong} if each["name"] in weak else each for each in verdict["outputs"]]
    return {**verdict, "outcome": "mismatch", "reason": reason, "outputs": outputs}


def _with_costs(
    test: Test, costs: Costs | None, outcome: Mapping[str, str], verdict: dict[str, Any] | None
) -> tuple[Mapping[str, str], dict[str, Any] | None]:
    """Return outcome and verdict; a pass that costs too much for its suite is ``slower``.

    Where goldens decide and nothing could be counted, the infrastructure failed.
    """
    if costs is None or outcome["outcome"] != Outcome.PASS or test.cost is None or not test.cost.fails:
        return outcome, verdict
    worse = costs_that_are("worse", costs)
    if worse:
        return failure(Stage.JUDGE, Outcome.SLOWER, cost_reason(worse)), None
    if "judged" in costs and not costs["exact"]:
        return failure(
            Stage.JUDGE, Outcome.INFRA_ERROR, next(iter(costs["absent"].values()), "nothing was counted")
        ), None
    return outcome, verdict


def _names(test: Test) -> dict[str, Any]:
    return {
        "id": test.id,
        "framework": test.framework,
        "pipeline": test.pipeline,
        "target": test.target,
        "workload": test.workload,
        "tested_property": test.tested_property.name if test.tested_property else "",
        "compile_only": bool(test.route and test.route.compile_only),
    }


def _compare(test: Test, outcome: Outcome) -> tuple[bool, ExpectedOutcome | None]:
    """Return whether the outcome is expected, and the expectation. An expected failure that passes is unexpected."""
    rule = test.expectation
    if rule is None:
        return outcome == Outcome.PASS or outcome in NOT_RUN, None
    expectation: ExpectedOutcome = {
        "outcome": rule.outcome,
        "reason": rule.reason,
        "position": rule.position,
    }
    if rule.link:
        expectation["link"] = rule.link
    return outcome == rule.outcome or outcome in NOT_RUN, expectation


def mark(quarantine: ActiveQuarantine, result: TestResult) -> TestResult:
    """Return a result with its quarantine if its outcome is unexpected. A quarantine that has ended becomes part of the reason."""
    if result.expected:
        return result
    ended = ""
    for entry, position in quarantine.entries(without_copy(result.id)):
        if entry.until < quarantine.day:
            ended = f"; its quarantine ended on {entry.until} ({position}; {entry.owner})"
            continue
        found: InQuarantine = {
            "owner": entry.owner,
            "until": entry.until,
            "reason": entry.reason,
            "position": position,
        }
        if entry.link:
            found["link"] = entry.link
        return replace(result, quarantine=found)
    return replace(result, reason=f"{result.reason}{ended}")


def reference_failure(graph: Graph, done: Mapping[str, Done], last: str, roots: Sequence[Path]) -> str | None:
    """Return ``file:line: reason`` if an action failed because of a reference, else None.

    The line is the innermost one of the reference, else that of its function.
    """
    failed = next(name for name in graph.needed_by(last) if name in done and not done[name].result.ok)
    action, outcome = graph.actions[failed], done[failed].result.outcome
    source = action.inputs.get("source")
    is_machine = outcome["outcome"] in (Outcome.INFRA_ERROR, Outcome.SKIPPED)
    if is_machine or action.tool not in ("reference", "forward_error") or not isinstance(source, File):
        return None
    path = roots[source.root] / source.path
    lines = _FRAME.findall(outcome["diagnostics"])
    line = lines[-1] if lines else path.read_text(errors="replace").partition("def reference(")[0].count("\n") + 1
    return f"{path if source.root else source.path}:{line}: {outcome['reason']}"
