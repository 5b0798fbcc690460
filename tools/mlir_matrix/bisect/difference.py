"""Find the first step after which the IR of two points differs, and show the difference without differences of spelling."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.execute.action_cache import Result
from mlir_matrix.execute.job import Done
from mlir_matrix.plan.graph import PlannedAction, Produced
from mlir_matrix.plan.planner import PlannedTests

_VALUE = re.compile(r"%[\w$.-]+(?::\d+|#\d+)?|\^\w+")
#: Spellings that may change without a change of meaning: aliases of attributes, properties in ``<{…}>``, spaces.
_SPELLINGS = (
    (re.compile(r"#([a-z_]+)\d+\b"), r"#\1"),
    (re.compile(r"<\{"), "{"),
    (re.compile(r"\}>"), "}"),
    (re.compile(r"\s+"), " "),
)
#: More of them by kind of file: in LLVM IR numbers of metadata and attributes, labels, comments; similarly in assembly.
_MORE_SPELLINGS = {
    "ll": (
        (re.compile(r"([!#])\d+\b"), r"\1"),
        (re.compile(r"^[\w.$-]+:"), "label:"),
        (re.compile(r"(?:^|\s+);[^\"]*$|^source_filename = .*"), ""),
    ),
    "s": (
        (re.compile(r"(?:^|\s+)(?:##? |//)[^\"]*$"), ""),
        (re.compile(r"\.L\w+"), ".L"),
        (re.compile(r"^\.(?:ident|file)\b.*"), ""),
    ),
}
_INTRINSIC, _GROUP = re.compile(r"declare .*@llvm\."), re.compile(r"#\d+")
#: The program that writes an output of a step that compiles LLVM IR. ``llc`` also writes the object.
_PROGRAMS = {"translated": "mlir-translate", "optimised": "opt", "assembly": "llc"}
#: The number of lines to show around a difference, and in all.
_AROUND, _MOST = 2, 60
#: By an output of two actions: its text as printed by one release, in the forms ``generic`` and ``custom``.
Prints: TypeAlias = Mapping[tuple[Produced, Produced], tuple[Result, Result]]


@dataclass(frozen=True, kw_only=True)
class StepDifference:
    """The first step whose output differs, or why it is unknown."""

    #: Empty if it is not known.
    step: str = ""
    #: The difference of the IR, as ``diff -u`` writes it; empty for outputs that are no text.
    lines: tuple[str, ...] = ()
    #: How many lines of the difference are not shown.
    cut: int = 0
    #: Why the steps were not compared; else empty.
    problem: str = ""


def first_difference(
    plan: PlannedTests,
    done: Mapping[str, Done],
    tests: tuple[str, str],
    read: Callable[[str], bytes],
    prints: Prints = MappingProxyType({}),
    last: str = "",
) -> StepDifference | None:
    """Compare the outputs of the steps of two tests in order, up to ``last``. Return None if no common step differs.

    Ignore differences before a step whose outputs are equal again. Without ``prints``, compare IR as each release wrote it.
    """
    if missing := [test for test in tests if test not in plan.verdicts]:
        return StepDifference(problem=f"the plan has no test {' and no test '.join(missing)}")
    first, made_by = None, ""
    for actions in common_steps(plan, done, tests):
        for found in _compare(actions, done, read, prints):
            if found is not None and first is None:
                first, made_by = found, actions[0].id
            elif found is None and actions[0].stage in (Stage.LOWER, Stage.CODEGEN):
                first = None if made_by in plan.graph.needed_by(actions[0].id) else first
        if actions[0].label == last:
            break
    return first() if first else None


def common_steps(
    plan: PlannedTests, done: Mapping[str, Done], tests: tuple[str, str]
) -> Iterator[tuple[PlannedAction, PlannedAction]]:
    """Yield the finished actions of the steps that two tests have, in order."""
    left, right = (_steps(plan, done, test) for test in tests)
    return ((left[label], right[label]) for label in left if label in right)


def _steps(plan: PlannedTests, done: Mapping[str, Done], test: str) -> dict[str, PlannedAction]:
    """Return the finished actions of a test that have outputs, by label."""
    names = [name for name in plan.needed_by(test) if name in done and done[name].result.ok]
    actions = map(plan.graph.actions.__getitem__, names)
    return {action.label: action for action in actions if action.stage != Stage.JUDGE}


def _compare(
    actions: tuple[PlannedAction, PlannedAction], done: Mapping[str, Done], read: Callable[[str], bytes], prints: Prints
) -> Iterator[Callable[[], StepDifference] | None]:
    """Yield the difference between two actions, or None; if an action runs several programs, for each of them."""
    label = actions[0].label
    outputs = [done[action.id].result.outputs for action in actions]
    programs = _PROGRAMS.keys() & outputs[0].keys()
    found = list[Callable[[], StepDifference] | None]()
    for name, file in actions[0].outputs.items():
        if name not in outputs[1]:
            continue
        step = f"{label} ({_PROGRAMS.get(name, 'llc')})" if programs else label
        pairs = [(outputs[0][name], outputs[1][name])]
        printed = prints.get((Produced(actions[0].id, name), Produced(actions[1].id, name)))
        if printed and all(each.ok for each in printed):
            # A difference is shown in the custom form, if it is there.
            pairs = [(printed[0].outputs[form], printed[1].outputs[form]) for form in ("custom", "generic")]
        found.append(_compare_outputs(step, file.rpartition(".")[2], pairs, read))
    yield from found if programs else [next(filter(None, found), None)]


def _compare_outputs(
    step: str, kind: str, pairs: Sequence[tuple[str, str]], read: Callable[[str], bytes]
) -> Callable[[], StepDifference] | None:
    """Return the difference of two outputs; None if they are equal in any form. Each pair of digests is one form."""
    if any(left == right for left, right in pairs):
        return None
    if kind not in ("mlir", *_MORE_SPELLINGS):
        return partial(StepDifference, step=step)
    try:
        texts = [tuple(read(digest).decode("utf-8", "replace") for digest in pair) for pair in pairs]
    except OSError as error:
        return partial(StepDifference, problem=f"after {step}, {error}")
    if normalised(texts[-1][0], kind) == normalised(texts[-1][1], kind):
        return None
    return partial(_shown, step, kind, texts)


def _shown(step: str, kind: str, texts: Sequence[tuple[str, ...]]) -> StepDifference:
    lines = next(filter(None, (difference(left, right, kind) for left, right in texts)), [])
    return StepDifference(step=step, lines=tuple(lines[:_MOST]), cut=max(0, len(lines) - _MOST))


def difference(left: str, right: str, kind: str = "mlir") -> list[str]:
    """Return the difference of two modules, operation by operation; empty if only names and spacing differ.

    ``kind`` is ``mlir``, ``ll`` for LLVM IR, or ``s`` for assembly.
    Names of values are left out, because one new operation renames all later values. If only operands differ, values are numbered.
    """
    for rename in (_anonymous, _numbered):
        before, after = (rename(_lines(text, kind)) for text in (left, right))
        lines = list(difflib.unified_diff(before, after, lineterm="", n=_AROUND))
        if lines:
            return [line for line in lines if not line.startswith(("---", "+++"))]
    return []


def normalised(text: str, kind: str = "mlir") -> str:
    """Return a text of a module that is equal for two modules if ``difference`` shows nothing."""
    return "\n".join(_numbered(_lines(text, kind)))


def _lines(text: str, kind: str = "mlir") -> Iterator[str]:
    """Yield the lines of a module in a uniform spelling."""
    for line in _without_intrinsics(text) if kind == "ll" else text.splitlines():
        words = line.strip()
        for pattern, replacement in (*_MORE_SPELLINGS.get(kind, ()), *_SPELLINGS):
            words = pattern.sub(replacement, words)
        if words:
            yield line[: len(line) - len(line.lstrip())] + words


def _without_intrinsics(text: str) -> list[str]:
    """Return the lines of LLVM IR without declarations of intrinsics and their attributes, which differ between releases."""
    lines = [line for line in text.splitlines() if not _INTRINSIC.match(line)]
    used = {group for line in lines if not line.startswith("attributes") for group in _GROUP.findall(line)}
    return [line for line in lines if not line.startswith("attributes") or used & set(_GROUP.findall(line))]


def _anonymous(lines: Iterable[str]) -> list[str]:
    return [_VALUE.sub(lambda found: found[0][0], line) for line in lines]


def _numbered(lines: Iterable[str]) -> list[str]:
    numbers: dict[str, int] = {}
    return [
        _VALUE.sub(lambda found: f"{found[0][0]}{numbers.setdefault(found[0], len(numbers))}", line) for line in lines
    ]
