"""Find the pass inside a wrong step: its first passes run as in the failing test, the rest by another release."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mlir_matrix.actions.contract import fill
from mlir_matrix.actions.mlir.by_programs import pipeline_option, with_schedule
from mlir_matrix.actions.mlir.generic_form import split
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.bisect.difference import difference
from mlir_matrix.bisect.steps.continuations import Continuation
from mlir_matrix.bisect.steps.evidence import Answer
from mlir_matrix.bisect.steps.localize import LevelPlanner, Localized, alike, answer_of
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.plan.graph import File, Graph, Input, PlannedAction, Produced
from mlir_matrix.plan.request import Limits
from mlir_matrix.results.reproducer import SCHEDULE
from mlir_matrix.results.run_plan import run_plan

_OPTIONS = re.compile(r"\{[^{}]*\}")
#: The file of the IR before, in the folder of the report.
BEFORE = "before.mlir"
#: How many lines of a difference are kept.
_LINES = 60
#: The line above the IR after a pass, as MLIR prints it: ``IR Dump After CSEPass: cse //``, in older releases ``(cse)``.
_PRINTED = re.compile(r"IR Dump After \w+( Failed)?[: (]+([\w-]+)")
#: Shown instead of a pass: the patterns of a step, which come before its passes.
PATTERNS = "the patterns of the step"


@dataclass(frozen=True, kw_only=True)
class FoundPass:
    """What is known about the passes of a wrong step."""

    #: The passes that may be wrong, in their order; one where it is certain; none if nothing is known.
    passes: tuple[str, ...] = ()
    #: The continuation with the other release, and the passes that only this one runs at their place.
    by: str = ""
    others: tuple[str, ...] = ()
    #: By number of passes that ran as in the test: what the rest computes.
    answers: tuple[Answer, ...] = ()
    #: Why there is no answer; else empty.
    problem: str = ""
    #: The IR that the wrong passes, or the whole step, take and give.
    before: bytes = b""
    after: bytes = b""
    #: From what the other release's passes give to what these give; without another release, from before to after.
    lines: tuple[str, ...] = ()
    #: The command line for a folder with the IR before; empty if these are not passes of a program.
    command: tuple[str, ...] = ()
    #: If the passes include the patterns of the step: their file, and what ``matrix step`` takes to run the step.
    patterns: str = ""
    step: tuple[str, ...] = ()


def split_passes(pipeline: str) -> list[str]:
    """Return the single passes of a pipeline: ``func.func(a,b),c`` has ``func.func(a)``, ``func.func(b)`` and ``c``."""
    found = []
    for text in split(pipeline):
        anchor, opened, inner = text.partition("(")
        if opened and "{" not in anchor:
            found += [f"{anchor}({each})" for each in split_passes(inner.rpartition(")")[0])]
        else:
            found.append(text)
    return found


def places_of(passes: Sequence[str], others: Sequence[str]) -> list[int]:
    """Return for each number of passes, from 0, how many of the other release's passes do the same."""
    names, other_names = ([_OPTIONS.sub("", each) for each in some] for some in (passes, others))
    blocks = difflib.SequenceMatcher(None, names, other_names, autojunk=False).get_matching_blocks()
    same = {block.a + each: block.b + each for block in blocks for each in range(block.size)}
    places = [0]
    for index in range(len(passes)):
        places.append(same[index] + 1 if index in same else places[-1])
    places[-1] = len(others)
    return places


def find_pass(session: Session, found: Localized, limits: Limits) -> FoundPass | None:
    """Find the pass of the wrong step of a test; None if it is not known which part is wrong, or if that is no step."""
    suspects = found.conclusion.suspects
    steps = range(found.first + 1, found.first + 1 + len(found.steps))
    if len(suspects) != 1 or suspects[0] not in steps:
        return None
    return _InsideStep(session, found, suspects[0], limits).find()


class _InsideStep:
    """The passes of one step of a failing test."""

    def __init__(self, session: Session, found: Localized, index: int, limits: Limits) -> None:
        self._session, self._found, self._index, self._limits = session, found, index, limits
        self._levels = LevelPlanner(session, found.test)
        self._graph = self._levels.planner.graph
        self._read = ActionCache(session.home.actions).read_blob
        given = self._levels.level(index - found.first)
        assert isinstance(given, Produced)
        self._given = given
        self._action = self._graph.actions[given.action]
        self._step = found.parts[index].name
        passes = split_passes(str(self._action.params.get("passes", "")))
        self._passes = [PATTERNS, *passes] if "patterns" in self._action.inputs else passes

    def find(self) -> FoundPass:
        if self._action.tool != "passes":
            return FoundPass(problem=f"step {self._step} runs {self._action.tool}, not passes")
        failed = FoundPass()
        if self._found.result.outcome != Outcome.MISMATCH and self._index == len(self._found.parts) - 1:
            failed = self._of_failure()
        if failed.passes:
            return failed
        able = [
            cell.continuation
            for cell in self._found.cells
            if cell.continuation.level == self._index - 1
            and cell.answer == Answer.RIGHT
            and self._has_step(cell.continuation)
        ]
        if able:
            return self._by_continuation(able[0])
        if failed.problem:
            return failed
        why = f"no other release runs {self._step} and is right"
        return replace(self._shown(0, len(self._passes), None), problem=why)

    def _has_step(self, each: Continuation) -> bool:
        """Return whether a continuation begins with the wrong step, by passes, in another release."""
        route = each.test.known_route
        first = route.steps[0] if route.steps else None
        name = self._step.partition("#")[0]
        if first is None or first.name != name or first.resolved_step.tool != "passes":
            return False
        return first.resolved_step.environment != self._action.environment

    def _of_failure(self) -> FoundPass:
        """Name the pass after the last one that MLIR printed."""
        printed = self._graph.add(
            self._action.label,
            tool="print_passes",
            stage=self._action.stage,
            environment=self._action.environment,
            params=self._action.params,
            inputs=self._action.inputs,
            outputs={"printed": "printed.mlir", "problem": "problem.txt"},
        )
        result = self._run([printed])[printed].result
        if not result.ok:
            return FoundPass(problem=str(result.outcome["reason"]))
        text, problem = (self._read(result.outputs[name]).decode("utf-8", "replace") for name in ("printed", "problem"))
        if problem.startswith("the pass pipeline does not parse"):
            return FoundPass(problem=" ".join(problem.split()))
        own = [each for each in self._passes if each != PATTERNS]
        done = 0
        for failed, name in _PRINTED.findall(text):
            if failed or done == len(own):
                break
            # A pass on functions is printed after each of them.
            done += name in own[done]
        if done >= len(own):
            return FoundPass(problem=f"each pass of {self._step} ends when the IR is printed after it")
        if done == 0 and PATTERNS in self._passes and not self._texts([self._prefix(1)])[0]:
            return self._shown(0, 1, None)
        place = self._passes.index(own[done])
        return self._shown(place, place + 1, None)

    def _by_continuation(self, other: Continuation) -> FoundPass:
        """Find the first pass after which the other release computes what is wrong."""
        route = other.test.known_route
        chains = self._levels.planner.chains
        whole = chains.lower(other.test, 0, self._action.inputs["ir"], 1)
        assert isinstance(whole, Produced)
        action = self._graph.actions[whole.action]
        others = split_passes(str(action.params.get("passes", "")))
        places = places_of(self._passes, others)
        tail = replace(other.test, route=replace(route, steps=route.steps[1:]))
        names = []
        for number in range(len(self._passes) + 1):
            test = replace(tail, id=f"{number} passes")
            names.append(test.id)
            rest = self._part(action, others[places[number] :], self._prefix(number))
            self._levels.add(test, rest)
        run = run_plan(self._session, self._levels.plan(), limits=self._limits, fail_fast=False)
        run.raise_interruption()
        results = {result.id: result for result in run.results}
        answers = tuple(answer_of(self._found.result, results[name], results[alike(name)]) for name in names)
        right = max((number for number, each in enumerate(answers) if each == Answer.RIGHT), default=0)
        wrong = [number for number, each in enumerate(answers) if each in (Answer.SAME, Answer.OTHER)]
        later = min((number for number in wrong if number > right), default=len(self._passes))
        its = others[places[right] : places[later]]
        known = self._shown(right, later, (action, its))
        own = {_OPTIONS.sub("", each) for each in self._passes}
        more = tuple(each for each in its if _OPTIONS.sub("", each) not in own)
        problem = ""
        if any(number < right for number in wrong):
            problem = f"{other.name} is wrong after fewer passes than it is right after"
        known = replace(known, by=other.name, others=more, answers=answers, problem=problem)
        return replace(known, passes=(), patterns="", step=(), command=()) if problem else known

    def _prefix(self, number: int) -> Input:
        """Return the IR after the first passes of the step."""
        if number == 0:
            return self._action.inputs["ir"]
        passes = [each for each in self._passes[:number] if each != PATTERNS]
        return self._part(self._action, passes, self._action.inputs["ir"], patterns=True)

    def _part(self, action: PlannedAction, passes: Sequence[str], ir: Input, *, patterns: bool = False) -> Input:
        """Return what some passes give, run as an action of a step runs all of them."""
        inputs = {name: ref for name, ref in action.inputs.items() if patterns or name != "patterns"}
        if not passes and "patterns" not in inputs:
            return ir
        ir = self._levels.handed(ir, action.environment)
        # Only the last pass of a step gives IR of its kind.
        params = {name: value for name, value in action.params.items() if name != "contract"}
        made = self._graph.add(
            action.label,
            tool=action.tool,
            stage=action.stage,
            environment=action.environment,
            params={**params, "passes": ",".join(passes)},
            inputs={**inputs, "ir": ir},
            outputs=action.outputs,
        )
        return Produced(made, self._given.output)

    def _shown(self, begin: int, end: int, other: tuple[PlannedAction, Sequence[str]] | None) -> FoundPass:
        """Return passes with the IR before and after them, and the difference to what ``other`` gives."""
        passes = tuple(self._passes[begin:end])
        before, after = self._prefix(begin), self._prefix(end)
        texts = [before, after]
        if other is not None:
            expected = self._levels.printed(self._part(other[0], other[1], before), "generic", other[0])
            texts += [self._levels.printed(each, "custom", self._action) for each in (expected, after)]
        read = self._texts(texts)
        pair = read[2:] if other is not None and all(read[2:]) else read[:2]
        lines = difference(*(each.decode("utf-8", "replace") for each in pair)) if all(pair) else []
        pipeline = ",".join(passes)
        schedule = SCHEDULE if "schedule" in self._action.inputs and "transform-interpreter" in pipeline else None
        releases = self._session.releases(self._action.environment)
        # The passes of torch-mlir are in its bindings alone.
        is_program = any("mlir-opt" in entry.document.tools for entry, _ in releases)
        command = ("mlir-opt", BEFORE, pipeline_option(with_schedule(pipeline, schedule)))
        return FoundPass(
            passes=passes,
            before=read[0],
            after=read[1],
            lines=tuple(lines[:_LINES]),
            command=command if passes and is_program and PATTERNS not in passes else (),
            patterns=self._patterns() if PATTERNS in passes else "",
            step=(self._step.partition("#")[0], *self._values()) if PATTERNS in passes else (),
        )

    def _patterns(self) -> str:
        """Return the file of the patterns."""
        file = self._action.inputs["patterns"]
        assert isinstance(file, File)
        return file.shown(self._session.catalog.roots)

    def _values(self) -> Iterator[str]:
        """Yield the options of ``matrix step`` for the parameters that are not the step's defaults."""
        step = self._found.steps[self._index - self._found.first - 1]
        for each in step.arguments:
            if not each.default:
                yield from ("--with", f"{each.name}={fill(f'${{{each.name}}}', step.parameters)}")

    def _texts(self, irs: Sequence[Input]) -> list[bytes]:
        """Return the bytes of IR; nothing for what could not be made."""
        done = self._run([ir.action for ir in irs if isinstance(ir, Produced)])
        found = []
        for ir in irs:
            if not isinstance(ir, Produced):
                found.append((self._session.catalog.roots[ir.root] / ir.path).read_bytes())
            elif done[ir.action].result.ok:
                found.append(self._read(done[ir.action].result.outputs[ir.output]))
            else:
                found.append(b"")
        return found

    def _run(self, actions: Sequence[str]) -> Mapping[str, Done]:
        """Run some actions with all that they need."""
        needed = dict.fromkeys(name for action in actions for name in self._graph.needed_by(action))
        part = Graph({name: self._graph.actions[name] for name in needed})
        return run_graph(self._session, part, limits=self._limits)
