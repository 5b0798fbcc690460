"""Reduce a failing test: confirm its behaviour, search, verify the result in new processes, and write it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mlir_matrix import __version__
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.events import Listener
from mlir_matrix.base.files import write_text
from mlir_matrix.bisect.steps.passes import PATTERNS, split_passes
from mlir_matrix.environments.session import Session
from mlir_matrix.plan.request import Limits
from mlir_matrix.reduce.behaviours import NO_KERNEL, Behaviour, SameFailure, WrongNumbers, signature_of
from mlir_matrix.reduce.lines import Lines, reduce_lines, shortened
from mlir_matrix.reduce.program import interface_of
from mlir_matrix.reduce.reduced import LOG, REDUCED, Reduced, Size, own_folder
from mlir_matrix.reduce.subject import Subject, SubjectFinder, failing_test
from mlir_matrix.reduce.tester import ParallelTester, Progress, WorkerThreads, worker_threads
from mlir_matrix.reduce.written import no_reference, write_result
from mlir_matrix.reduction.numpy_text import Untranslatable
from mlir_matrix.reduction.search import Candidate, reduce
from mlir_matrix.reduction.tree import Module, text_of, walk
from mlir_matrix.results.signature import Signature

#: How often a failure is observed before it counts: one that comes and goes cannot be reduced.
_OBSERVATIONS = 3
#: A candidate takes too long, for example because its loops do not end, after so many times what the observations of the level
#: took, but not before so many seconds.
_LONGER, _LEAST_S = 3, 5.0
#: What is not counted as an operation: what holds others, and what ends a block.
_FRAMES = re.compile(r"builtin\.module|.*\.func|.*\.(?:return|yield)")


def operations_of(module: Module) -> int:
    """Return the number of operations of a module, without functions and what ends a block."""
    return sum(not _FRAMES.fullmatch(each.name) for each in walk(module.operation))


def reduce_named(
    session: Session,
    name: str,
    limits: Limits,
    budget_s: float,
    folder: Path,
    *,
    good: Session | None = None,
    listener: Listener,
) -> Reduced:
    """Run a test, and reduce it into a folder. ``good``: the session in which it passes, if one is known.

    Raise UsageError and InfrastructureError, as the functions do that this one calls.
    """
    test, result = failing_test(session, name, limits, listener)
    subject = SubjectFinder(
        session=session, test=test, result=result, limits=limits, good=good, by="behaviour", listener=listener
    ).find()
    return reduce_test(subject, limits, budget_s, folder, progress=Progress(), listener=listener)


def reduce_test(
    subject: Subject, limits: Limits, budget_s: float, folder: Path, *, progress: Progress, listener: Listener
) -> Reduced:
    """Reduce a test and write the result into a folder. After Ctrl-C, write the best so far and raise KeyboardInterrupt.

    Raise UsageError if the behaviour does not show, is flaky, or the folder is another's; InfrastructureError if the machine fails.
    """
    began = time.monotonic()
    whole = _whole(subject)
    with own_folder(folder):
        with worker_threads(subject.session.home, limits) as pool:
            behaviour, good_fails = _confirmed(subject, whole, pool)
            found = _searched(
                subject, behaviour, pool, folder / LOG, began + budget_s, progress=progress, listener=listener
            )
            best = found.best
            passes = fewest_passes(subject, behaviour, best, pool) if found.complete else []
            before, after = (_printed(each, pool, behaviour) for each in (whole, best))
            reference = _reference(behaviour, best, pool)
        reduced = Reduced(
            subject=replace(subject, behaviour=behaviour),
            good_fails=good_fails,
            best=_module(best),
            text=after,
            before=_size(whole, before),
            after=_size(best, after),
            candidates=progress.tested,
            seconds=0.0,
            search_seconds=found.seconds,
            complete=found.complete,
            verified=_again(behaviour, best, subject.session, limits),
            passes=passes,
            by_programs=_has_programs(subject, behaviour),
            folder=folder,
            reference=reference,
        )
        write_text(folder / REDUCED, reduced.text)
        reduced = replace(write_result(reduced, limits), seconds=time.monotonic() - began)
    if found.interrupted is not None:
        raise found.interrupted
    return reduced


@dataclass(frozen=True, kw_only=True)
class _Searched:
    """The smallest candidate that a search found."""

    best: Candidate | Lines
    complete: bool
    interrupted: KeyboardInterrupt | None
    seconds: float


def _searched(
    subject: Subject,
    behaviour: Behaviour,
    pool: WorkerThreads,
    log: Path,
    until: float,
    *,
    progress: Progress,
    listener: Listener,
) -> _Searched:
    """Search by code that is not optimised, if that shows the behaviour, which takes half of the time; else by the test's own.

    ``until``: the end by the monotonic clock.
    """
    began = time.monotonic()
    whole = best = _whole(subject)
    interrupted: KeyboardInterrupt | None = None
    complete = False

    def accepted(candidate: Candidate | Lines) -> None:
        nonlocal best
        best = candidate
        progress.note(_count(candidate))

    for tried in _quick_first(behaviour, whole, pool):
        accepted(whole)
        tester = ParallelTester(
            tried,
            pool,
            log=log,
            reduction=digest_value([__version__, _text(whole), tried.key])[:16],
            until=until,
            accepted=accepted,
            progress=progress,
            listener=listener,
        )
        try:
            if subject.module is None:
                reduce_lines(subject.text, tester.first_text)
            else:
                reduce(subject.module, tester, _formulas(behaviour))
            complete = not tester.stopped
        except KeyboardInterrupt as error:
            interrupted, complete = error, False
        if interrupted or not _refusals(behaviour, best, pool, 1)[0]:
            break
    return _Searched(best=best, complete=complete, interrupted=interrupted, seconds=time.monotonic() - began)


def _whole(subject: Subject) -> Candidate | Lines:
    """Return the level itself as the first candidate."""
    if subject.module is None:
        return Lines(subject.text, "")
    return Candidate(module=subject.module, edit="")


def _text(candidate: Candidate | Lines) -> str:
    return candidate.text if isinstance(candidate, Lines) else text_of(candidate.module)


def _module(candidate: Candidate | Lines) -> Candidate | None:
    return candidate if isinstance(candidate, Candidate) else None


def _count(candidate: Candidate | Lines) -> int:
    """Return the number of operations; of a text, of lines."""
    return candidate.text.count("\n") if isinstance(candidate, Lines) else operations_of(candidate.module)


def _size(candidate: Candidate | Lines, printed: str) -> Size:
    operations = operations_of(candidate.module) if isinstance(candidate, Candidate) else None
    return Size(operations=operations, lines=printed.count("\n"))


def _confirmed(subject: Subject, whole: Candidate | Lines, pool: WorkerThreads) -> tuple[Behaviour, str]:
    """Return the behaviour of the level itself, observed several times, and why the good side has no part in it, if it has none.

    Raise UsageError if the behaviour is not that of the test.
    """
    behaviour, good_fails = subject.behaviour, ""
    if isinstance(behaviour, SameFailure):
        behaviour = replace(behaviour, wanted=_wanted(subject, behaviour, whole, pool))
        failing = behaviour
        good_fails = pool.call(lambda workers: failing.failure_of_good(_module(whole), _text(whole), workers))
        if good_fails:
            # Another release may not read this IR. Then it says nothing about smaller programs either.
            behaviour = replace(behaviour, good=None)
    began = time.monotonic()
    refusals = _refusals(behaviour, whole, pool, _OBSERVATIONS)
    if not all(refusals) and any(refusals):
        raise UsageError(f"{subject.test.id} is flaky: of {_OBSERVATIONS} runs, one shows the failure and one does not")
    if refusals[0]:
        raise UsageError(f"{subject.test.id}: the IR after {subject.level} by itself does not show it: {refusals[0]}")
    longest = max(_LEAST_S, _LONGER * (time.monotonic() - began))
    return replace(behaviour, timeout_s=min(behaviour.timeout_s, longest)), good_fails


def _wanted(subject: Subject, behaviour: SameFailure, whole: Candidate | Lines, pool: WorkerThreads) -> Signature:
    """Return how the level itself fails. Raise UsageError unless that is how the test fails, where it fails."""
    ended = pool.call(lambda workers: behaviour.observe(_module(whole), _text(whole), workers))
    test, result = subject.test.id, subject.result
    if ended is None:
        raise UsageError(f"{test}: {NO_KERNEL}: tensors or memrefs with a rank, at least one of each")
    step = result.step["name"] if result.step else ended.label
    if ended.ok:
        became = "passes"
    elif (ended.outcome["outcome"], ended.label) != (result.outcome, step):
        became = f"ends with {ended.outcome['outcome']} at {ended.label}: {ended.outcome['reason']}"
    else:
        return signature_of(ended)
    raise UsageError(f"{test}: {result.outcome} at {step}, but the IR after {subject.level} by itself {became}")


def _refusals(behaviour: Behaviour, candidate: Candidate | Lines, pool: WorkerThreads, times: int) -> list[str]:
    """Observe a candidate several times at once; return why it does not show the behaviour, or nothing, for each time."""
    text, module = _text(candidate), _module(candidate)
    waiting = [pool.submit(lambda workers: behaviour.refusal(module, text, workers)) for _ in range(times)]
    return [each.result() for each in waiting]


def _quick_first(behaviour: Behaviour, whole: Candidate | Lines, pool: WorkerThreads) -> Iterator[Behaviour]:
    """Yield the behaviour by code that is not optimised, which takes half of the time, if that shows it; then as it is."""
    if isinstance(behaviour, WrongNumbers):
        quick = behaviour.quick()
        if not _refusals(quick, whole, pool, 1)[0]:
            yield quick
    yield behaviour


def _formulas(behaviour: Behaviour) -> dict[str, str]:
    """Return the formulas of the inputs of the test, by name."""
    return {name: each["formula"] for name, each in behaviour.kernel.inputs.items()} if behaviour.kernel else {}


def fewest_passes(subject: Subject, behaviour: Behaviour, best: Candidate | Lines, pool: WorkerThreads) -> list[str]:
    """Return the fewest passes of the wrong step that fail in the same way, and its patterns first if they do only with these.

    Return none if it runs no passes.
    """
    actions = behaviour.sides[0].actions
    step = next((each for each in reversed(actions) if each.label == subject.guilty and each.tool == "passes"), None)
    if step is None:
        return []
    wrong, text, module = step.id, _text(best), _module(best)

    def fails(passes: Sequence[str], *, patterns: bool = False) -> bool:
        tried = behaviour.with_passes(wrong, ",".join(passes), patterns=patterns)
        return not pool.call(lambda workers: tried.refusal(module, text, workers))

    every = split_passes(str(step.params["passes"]))
    if fails(every):
        return _fewest(every, fails)
    fails_with_patterns = partial(fails, patterns=True)
    if "patterns" not in step.inputs or not fails_with_patterns(every):
        return []
    return [PATTERNS, *([] if fails_with_patterns([]) else _fewest(every, fails_with_patterns))]


def _has_programs(subject: Subject, behaviour: Behaviour) -> bool:
    """Return whether the passes of the failing action are in ``mlir-opt``: those of torch-mlir are in its bindings alone."""
    last = behaviour.sides[0].actions[-1]
    if not isinstance(behaviour, SameFailure):
        # What runs after the step shows that its passes are wrong.
        return False
    releases = subject.session.releases(last.environment)
    return "schedule" not in last.inputs and any("mlir-opt" in entry.document.tools for entry, _ in releases)


def _fewest(passes: Sequence[str], fails: Callable[[Sequence[str]], bool]) -> list[str]:
    """Return passes of which none can be left out, by halves, quarters and so on."""
    kept, size = list(passes), len(passes) // 2
    while size:
        fewer = next(filter(fails, shortened(kept, size)), None)
        if fewer is None:
            size //= 2
        else:
            kept = fewer
    return kept


def _printed(candidate: Candidate | Lines, pool: WorkerThreads, behaviour: Behaviour) -> str:
    """Return a candidate as the release that takes it prints it; as it is if that fails."""
    text = _text(candidate)
    if isinstance(candidate, Lines):
        return text
    side = behaviour.sides[0]
    return pool.call(lambda workers: side.printed(text, workers)) or text


def _reference(behaviour: Behaviour, best: Candidate | Lines, pool: WorkerThreads) -> str:
    """Return the text of the reference of a program; one that raises if none is known; empty for what is no program."""
    if behaviour.kernel is None or isinstance(best, Lines):
        return ""
    interface = interface_of(best, behaviour.kernel)
    if interface is None:
        return ""
    program, taken, text = best, interface, _text(best)
    try:
        return pool.call(lambda workers: behaviour.reference(program, taken, text, workers))
    except Untranslatable as error:
        return no_reference(interface, str(error))


def _again(behaviour: Behaviour, best: Candidate | Lines, session: Session, limits: Limits) -> bool:
    """Return whether the result shows the behaviour in new processes, under the limits of the test."""
    hangs = isinstance(behaviour, SameFailure) and behaviour.wanted.outcome == Outcome.TIMED_OUT
    behaviour = replace(behaviour, timeout_s=limits.timeout_s)
    with worker_threads(session.home, replace(limits, jobs=1)) as pool:
        return not any(_refusals(behaviour, best, pool, 1 if hangs else _OBSERVATIONS))
