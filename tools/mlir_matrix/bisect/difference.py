"""Find the first step after which the IR of two points differs, and show that difference without noise of the text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from mlir_matrix.execute.job import Done
from mlir_matrix.plan.graph import Action
from mlir_matrix.plan.planner import Plan

_VALUE = re.compile(r"%[\w$.-]+(?::\d+|#\d+)?|\^\w+")
#: Spellings that change without a change of meaning: aliases of attributes, properties in ``<{…}>``, spaces.
_SPELLINGS = (
    (re.compile(r"#([a-z_]+)\d+\b"), r"#\1"),
    (re.compile(r"<\{"), "{"),
    (re.compile(r"\}>"), "}"),
    (re.compile(r"\s+"), " "),
)
#: By the kind of file, further ones: in LLVM IR numbers of metadata and attributes, labels, comments; so in assembly.
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
#: Which program writes an output of a step that compiles LLVM IR; ``llc`` writes the object, too.
_PROGRAMS = {"translated": "mlir-translate", "optimised": "opt", "assembly": "llc"}
#: Lines around a difference, and lines that are shown in all.
_AROUND, _SHOWN = 2, 60


@dataclass(frozen=True, kw_only=True)
class StepDifference:
    """The first step whose output differs, or why that is not known."""

    #: Empty if it is not known.
    step: str = ""
    #: The difference of the IR, as ``diff -u`` writes it; empty for outputs that are no text.
    lines: tuple[str, ...] = ()
    #: How many lines of the difference are not shown.
    cut: int = 0
    #: Why the steps were not compared; else empty.
    problem: str = ""


def first_difference(
    plan: Plan, done: Mapping[str, Done], tests: tuple[str, str], read: Callable[[str], bytes]
) -> StepDifference | None:
    """Compare what the steps of two tests gave, in order. None if no common step gave anything else."""
    if missing := [test for test in tests if test not in plan.verdicts]:
        return StepDifference(problem=f"the plan has no test {' and no test '.join(missing)}")
    left, right = (dict(_steps(plan, done, test)) for test in tests)
    for label in (label for label in left if label in right):
        actions = (left[label], right[label])
        found = _compare(label, actions, done, read)
        if found is not None:
            return found
    return None


def _steps(plan: Plan, done: Mapping[str, Done], test: str) -> Iterator[tuple[str, Action]]:
    """Yield the finished actions of a test that give something, by their name without digest."""
    for name in plan.needed_by(test):
        if name in done and done[name].result.ok and plan.graph.actions[name].stage != "judge":
            yield name.rpartition("-")[0], plan.graph.actions[name]


def _compare(
    label: str, actions: tuple[Action, Action], done: Mapping[str, Done], read: Callable[[str], bytes]
) -> StepDifference | None:
    outputs = [done[action.id].result.outputs for action in actions]
    for name, file in actions[0].outputs.items():
        if name not in outputs[1] or outputs[0][name] == outputs[1][name]:
            continue
        step = f"{label} ({_PROGRAMS.get(name, 'llc')})" if _PROGRAMS.keys() & outputs[0].keys() else label
        kind = file.rpartition(".")[2]
        if kind not in ("mlir", *_MORE_SPELLINGS):
            return StepDifference(step=step)
        try:
            left, right = (read(output[name]).decode("utf-8", "replace") for output in outputs)
        except OSError as error:
            return StepDifference(problem=f"after {step}, {error}")
        lines = difference(left, right, kind)
        if lines:
            cut = max(0, len(lines) - _SHOWN)
            return StepDifference(step=step, lines=tuple(lines[:_SHOWN]), cut=cut)
    return None


def difference(left: str, right: str, kind: str = "mlir") -> list[str]:
    """Return the difference of two modules, operation by operation; empty if only names and spacing differ.

    ``kind`` is ``mlir``, ``ll`` for LLVM IR, or ``s`` for assembly.
    Names of values are left out, because one new operation renames all that follow. Where nothing but operands differs, values
    are numbered.
    """
    for rename in (_anonymous, _numbered):
        before, after = (rename(_lines(text, kind)) for text in (left, right))
        lines = list(difflib.unified_diff(before, after, lineterm="", n=_AROUND))
        if lines:
            return [line for line in lines if not line.startswith(("---", "+++"))]
    return []


def normalised(text: str) -> str:
    """Return the text of a module that only differs from another one's if ``difference`` shows something."""
    return "\n".join(_numbered(_lines(text)))


def _lines(text: str, kind: str = "mlir") -> Iterator[str]:
    """Yield the lines of a module, with one spelling for what has several."""
    for line in _without_intrinsics(text) if kind == "ll" else text.splitlines():
        words = line.strip()
        for pattern, replacement in (*_MORE_SPELLINGS.get(kind, ()), *_SPELLINGS):
            words = pattern.sub(replacement, words)
        if words:
            yield line[: len(line) - len(line.lstrip())] + words


def _without_intrinsics(text: str) -> list[str]:
    """Return the lines of LLVM IR but for declarations of intrinsics and their attributes: a release has its own."""
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
