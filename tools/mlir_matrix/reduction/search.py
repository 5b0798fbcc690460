"""Make a module smaller while a predicate holds: edits that take most first, until none is left that takes anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from mlir_matrix.reduction import branches, edits, operands, simplify
from mlir_matrix.reduction.draft import Draft, is_constant
from mlir_matrix.reduction.edits import Edit, Edits
from mlir_matrix.reduction.tree import Module, attribute, blocks_of, text_of, walk
from mlir_matrix.reduction.types import cost_of


@dataclass(frozen=True)
class Candidate:
    """A module that may still show the behaviour."""

    module: Module
    #: What was done, in a few words, for the log: "erase linalg.generic".
    edit: str
    #: By name of an input of @main: the formula that fills it. Others have that of the test.
    formulas: Mapping[str, str] = field(default_factory=dict)


class Tester(Protocol):
    """What tells whether candidates show the behaviour."""

    def first(self, candidates: Iterable[Candidate]) -> Candidate | None:
        """Return the first candidate, in their order, that shows the behaviour; None if none does, or time is up."""


Size = tuple[int, int, int, int]
#: What a formula of the test counts that is not known here: more than any simple one.
_UNKNOWN_FORMULA = 40
#: Digits of longer constants are not added.
_LONG = 200


def size_of(candidate: Candidate) -> Size:
    """Return what shrinks with every step: operations and arguments, elements of types, lengths of texts, digits of constants."""
    operations = elements = digits = 0
    length = len(text_of(candidate.module))
    for one in walk(candidate.module.operation):
        # A constant in place of something else is progress.
        operations += 1 if is_constant(one) else 2
        elements += sum(cost_of(value.type) for value in one.results)
        for block in blocks_of(one):
            operations += len(block.arguments)
            elements += sum(cost_of(value.type) for value in block.arguments)
            filled = [candidate.formulas.get(value.input) for value in block.arguments if value.input]
            length += sum(_UNKNOWN_FORMULA if formula is None else len(formula) for formula in filled)
        for name in simplify.VALUES:
            written = attribute(one, name)
            digits += sum(int(digit) for digit in written[:_LONG] if digit.isdecimal())
    return operations, elements, length, digits


def reduce(module: Module, tester: Tester, formulas: Mapping[str, str] = MappingProxyType({})) -> Candidate:
    """Return the smallest candidate that is found. The module itself is taken to show the behaviour.

    ``formulas``: those of the inputs of @main, as far as they are known.

    The same module and the same answers give the same candidate. If time is up, the tester says None from then on.
    """
    current = Candidate(module, "", formulas)
    before = None
    while before is not current:
        before = current
        for phase in _phases(current.module):
            current = _exhaust(current, phase, tester)
    return current


def _phases(module: Module) -> Iterator[Edits]:
    yield edits.returns
    yield edits.cuts
    yield edits.arguments
    size = sum(1 for _ in walk(module.operation)) // 2
    while size > 1:
        yield edits.removals(size)
        size //= 2
    yield edits.removals(1)
    yield edits.arguments
    yield branches.branches
    yield edits.hoists
    yield operands.operands
    yield simplify.shapes
    yield simplify.element_types
    yield simplify.constants
    yield simplify.attributes
    yield simplify.formulas


def _exhaust(current: Candidate, phase: Edits, tester: Tester) -> Candidate:
    """Apply edits of one kind until none of them is possible. After one that was, go on with the edit behind it."""
    start = 0
    while True:
        found = phase(current.module)
        numbers = {id(edit): number for number, edit in enumerate(found)}
        origin: dict[int, Edit] = {}
        best = tester.first(_candidates(current, found[start:] + found[:start], origin))
        if best is None:
            return current
        start = numbers[id(origin[id(best)])]
        current = best


def _candidates(current: Candidate, found: list[Edit], origin: dict[int, Edit]) -> Iterator[Candidate]:
    """Yield what edits make of a module, if it is smaller, and note each one's edit."""
    size = size_of(current)
    for edit in found:
        draft = Draft(current.module, current.formulas)
        edit.apply(draft)
        draft.finish()
        candidate = Candidate(draft.module, edit.name, draft.formulas)
        if size_of(candidate) < size:
            origin[id(candidate)] = edit
            yield candidate
