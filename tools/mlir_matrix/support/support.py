"""Answer what is supported: how far workloads, and the operators in them, get on each path and target."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import did_you_mean, printable, with_pins
from mlir_matrix.results.results import TestResult, weak_words

if TYPE_CHECKING:
    from mlir_matrix.support.documents import AnswerWord, FailsIn, Support, SupportEntry

#: Answers, the best first; among failures, later stages are better.
_ORDER: Sequence[AnswerWord] = ("yes", "compiles", "weak", "wrong", "fails", "not run", "cannot", "unknown")
_BAD = ("wrong", "fails")
_NOT_RUN = (Outcome.SKIPPED, Outcome.INFRA_ERROR)
#: At the begin of a statement, after its results: ``%0 = torch.aten.mm``, ``"stablehlo.sort"(``.
_OPERATOR = re.compile(r'^\s*(?:%[^=\n]*= *)?"?([a-z_]\w*\.[\w.$]+)"?(?=[\s(]|$)', re.MULTILINE)
#: torch-mlir represents operators of ONNX by an operation of its own dialect.
_HELD = re.compile(r'torch\.operator"?(?:\([^)\n]*\) *<\{name =)? *"(onnx\.[\w.]+)"')
#: Functions, constants and ends of regions compute nothing.
_PLUMBING = re.compile(
    r"func\.|builtin\.|torch\.(prim\.|operator$|vtensor\.literal)|\w+\.(const|return|yield)|onnx\.Constant"
)
_QUOTED = re.compile(r"'([\w.$]+)'")


def operators(text: str) -> frozenset[str]:
    """Return the operators in the text of MLIR, without functions and constants; nothing for another language."""
    found = {*_OPERATOR.findall(text), *_HELD.findall(text)}
    return frozenset(name for name in found if not _PLUMBING.match(name))


def select_operators(wanted: Sequence[str], found: Collection[str]) -> frozenset[str]:
    """Return the operators that patterns match; ``sort`` matches ``torch.aten.sort``. Raise UsageError if one matches none."""
    chosen: set[str] = set()
    for pattern in wanted:
        ends = {name: [".".join(name.split(".")[at:]) for at in range(name.count(".") + 1)] for name in found}
        matched = {name for name, parts in ends.items() if any(fnmatchcase(part, pattern) for part in parts)}
        if not matched:
            hint = did_you_mean(pattern, {part for parts in ends.values() for part in parts})
            known = "; list them: matrix report support --by operator" if found else ": their IR is not MLIR"
            raise UsageError(f"--operator {printable(pattern)}: no selected test has this operator{hint}{known}")
        chosen |= matched
    return frozenset(chosen)


def report(
    results: Sequence[TestResult],
    *,
    contained: Mapping[str, frozenset[str]] | None = None,
    wanted: Collection[str] = (),
) -> Support:
    """Return what is supported, by workload, or by operator where ``contained`` has the operators of tests.

    ``wanted`` are the operators to report, by default all.
    """
    entries = [_of_test(result) for result in results]
    if contained is not None:
        entries = list(_by_operator(list(zip(results, entries, strict=True)), contained, wanted))
    counts = Counter(entry["answer"] for entry in entries)
    return {
        "schema": "mlir-matrix/support/v1",
        "by": "workload" if contained is None else "operator",
        "entries": entries,
        "summary": {
            "tests": len(results),
            "entries": len(entries),
            "answers": {word: counts[word] for word in _ORDER if word in counts},
        },
    }


def _of_test(result: TestResult) -> SupportEntry:
    reason = result.reason
    answer: AnswerWord = "fails"
    if result.outcome in (Outcome.PASS, Outcome.SLOWER):
        answer = "weak" if result.weak else "compiles" if result.compile_only else "yes"
        weak = f"outputs that need no program would also pass ({weak_words(result.weak)})"
        reason = weak if result.weak else ""
    elif result.outcome == Outcome.MISMATCH:
        answer = "wrong"
    elif result.outcome == Outcome.UNSUPPORTED:
        answer = "cannot"
    elif result.outcome in _NOT_RUN:
        answer = "not run"
    elif result.outcome in (Outcome.CRASHED, Outcome.TIMED_OUT):
        reason = f"{result.outcome}: {reason}"
    entry: SupportEntry = {
        "name": result.called,
        "framework": result.framework,
        "pipeline": result.pipeline,
        "target": with_pins(result.target, result.identity.pins),
        "answer": answer,
        "expected": result.expected,
        "reason": reason,
        "test": result.id,
        "tests": 1,
    }
    if answer == "fails" and result.stage:
        entry["stage"] = result.stage
    if answer in ("wrong", "fails") and result.expected and result.expectation:
        entry["reason"], entry["position"] = result.expectation["reason"], result.expectation["position"]
    return entry


_Judged = tuple[TestResult, "SupportEntry"]


def _by_operator(
    judged: Sequence[_Judged], contained: Mapping[str, frozenset[str]], wanted: Collection[str]
) -> Iterator[SupportEntry]:
    # What a path does not take was not imported for it; another path may have imported the same workload.
    imported: dict[tuple[str, str], set[str]] = defaultdict(set)
    for result, _ in judged:
        imported[result.framework, result.workload] |= contained.get(result.id, frozenset())
    cells: dict[tuple[str, str, str], dict[str, list[_Judged]]] = {}
    for result, entry in judged:
        cell = cells.setdefault((entry["framework"], entry["pipeline"], entry["target"]), {})
        for name in contained.get(result.id) or imported[result.framework, result.workload]:
            if not wanted or name in wanted:
                cell.setdefault(name, []).append((result, entry))
    for cell in cells.values():
        for name in sorted(cell):
            yield _of_operator(name, cell[name], contained)


def _of_operator(name: str, tests: Sequence[_Judged], contained: Mapping[str, frozenset[str]]) -> SupportEntry:
    """Return the answer of the test that gets furthest, of those that do not fail at another operator."""
    others = {result.id: blamed(result, contained.get(result.id, ())) - {name} for result, _ in tests}
    fair = [(result, entry) for result, entry in tests if not others[result.id] or _blames(result, name)]
    if not fair:
        entry = tests[0][1]
        culprits = ", ".join(sorted(set().union(*others.values())))
        why = f"each test that contains it fails at another operator: {culprits}"
        made: SupportEntry = {**entry, "answer": "unknown", "expected": True, "reason": why}
        made.pop("stage", None)
        made.pop("position", None)
    else:
        made = {**min((entry for _, entry in fair), key=distance)}
        bad: list[FailsIn] = [
            {"test": entry["test"], "answer": entry["answer"], "reason": entry["reason"]}
            for result, entry in fair
            if entry["answer"] in _BAD and (_blames(result, name) or contained.get(result.id) == frozenset({name}))
        ]
        if bad and made["answer"] not in _BAD:
            made["fails_in"] = bad
    return {**made, "name": name, "tests": len(tests)}


def distance(entry: SupportEntry) -> tuple[int, int]:
    """Return a key that sorts entries: those that get furthest come first."""
    stage = entry.get("stage")
    return _ORDER.index(entry["answer"]), -list(Stage).index(stage) if stage else 0


def _blames(result: TestResult, name: str) -> bool:
    return name in blamed(result, (name,))


def blamed(result: TestResult, among: Iterable[str]) -> frozenset[str]:
    """Return the operators that the errors of a failed test name."""
    if result.outcome in (Outcome.PASS, Outcome.UNSUPPORTED):
        return frozenset()
    said = [line for line in result.diagnostics.splitlines() if "error:" in line]
    named = {*_QUOTED.findall("\n".join([result.reason, *said])), *_HELD.findall(result.diagnostics)}
    return frozenset(named.intersection(among))
