"""Edits of a module that take operations, results and arguments out of it, those that take most first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from mlir_matrix.reduction.draft import Draft, is_constant, is_function, returns_of
from mlir_matrix.reduction.tree import Module, Operation, Value, attribute, walk
from mlir_matrix.reduction.types import is_fixed_tensor, is_tensor

#: In about so many places, a function is cut; smaller edits follow.
MOST_PLACES = 64
#: Only so many earlier values are tried in place of a single one.
MOST_VALUES = 8

#: Operations of linalg whose bodies are theirs to choose.
_WRITTEN_BODIES = frozenset({"linalg.generic", "linalg.map", "linalg.reduce"})


@dataclass(frozen=True)
class Edit:
    """A change of a module, in a few words, and what does it to a copy."""

    name: str
    apply: Callable[[Draft], None]


Edits = Callable[[Module], list[Edit]]


def halving(count: int) -> Iterator[int]:
    """Yield places from 0 to count - 1, not too many: the middle, the middles of both halves, and so on."""
    waiting = [(0, count)]
    for low, high in islice(waiting, 2 * MOST_PLACES):
        if low < high:
            middle = (low + high) // 2
            yield middle
            waiting += [(low, middle), (middle + 1, high)]


def functions_of(module: Module) -> Iterator[tuple[int, Operation]]:
    """Yield the functions that have bodies with their numbers."""
    return ((number, one) for number, one in enumerate(walk(module.operation)) if is_function(one))


def returns(module: Module) -> list[Edit]:
    """Let a function return one value alone, or one fewer. A value in the middle halves the function."""
    edits = []
    for number, function in functions_of(module):
        returned = [len(one.operands) for one in returns_of(function)]
        count = min(returned, default=0)
        if len(function.regions[0]) == 1 and returned:
            edits += _returns_of_values(number, function)
        for index in range(count):
            edits.append(Edit(f"return result {index} alone", partial(_return_results, number, {index})))
        for index in range(count):
            rest = set(range(count)) - {index}
            edits.append(Edit(f"do not return result {index}", partial(_return_results, number, rest)))
    return edits


def _returns_of_values(number: int, function: Operation) -> list[Edit]:
    """Return edits of a function with one block: it returns another value, which may be what an operation stores."""
    *body, last = function.regions[0][0].operations
    # The outputs of a program are tensors. An IR test may return anything.
    is_program = any(value.input for value in function.regions[0][0].arguments)
    values = [
        (place, index)
        for place, one in enumerate(body)
        for index, value in enumerate(one.results)
        if value not in last.operands and (is_tensor(value.type) or not is_program) and not is_constant(one)
    ]
    edits = []
    for choice in halving(len(values)):
        place, index = values[choice]
        edits.append(Edit(f"return {body[place].name} alone", partial(_return_value, number, place, index)))
    computed = {value for one in body for value in one.results if not is_constant(one)}
    for place, one in enumerate(body):
        if not is_program and not one.results:
            taken = [index for index, value in enumerate(one.operands) if value in computed]
            edits += [
                Edit(f"return what {one.name} takes", partial(_return_operand, number, place, index)) for index in taken
            ]
    return edits


def _return_value(function: int, place: int, index: int, draft: Draft) -> None:
    body = draft.operations[function].regions[0][0].operations
    body[-1].operands = [body[place].results[index]]


def _return_operand(function: int, place: int, index: int, draft: Draft) -> None:
    body = draft.operations[function].regions[0][0].operations
    body[-1].operands = [body[place].operands[index]]
    draft.erase(body[place])


def _return_results(function: int, kept: set[int], draft: Draft) -> None:
    for one in returns_of(draft.operations[function]):
        one.operands = [value for index, value in enumerate(one.operands) if index in kept]


def cuts(module: Module) -> list[Edit]:
    """Let a function begin in its middle: what the rest needs of the first part becomes arguments."""
    edits = []
    for number, function in functions_of(module):
        body = function.regions[0][0].operations
        for place in halving(len(body)):
            if place and len(function.regions[0]) == 1:
                edits.append(Edit(f"begin at {body[place].name}", partial(_cut, number, place)))
    return edits


def _cut(function: int, place: int, draft: Draft) -> None:
    operation = draft.operations[function]
    body = operation.regions[0][0].operations
    needed = dict.fromkeys(value for one in body[place:] for inner in walk(one) for value in inner.operands)
    for one in body[:place]:
        for value in one.results:
            if value in needed and not is_constant(one) and is_fixed_tensor(value.type):
                draft.replace(value, draft.new_argument(operation, value.type))


def arguments(module: Module) -> list[Edit]:
    """Drop arguments that are not used, all at once, then one at a time. A program keeps an input."""
    edits = []
    used = {value for one in walk(module.operation) for value in one.operands}
    for number, function in functions_of(module):
        values = function.regions[0][0].arguments
        unused = [index for index, value in enumerate(values) if value not in used]
        if len(unused) == len(values) and any(value.input for value in values):
            unused = unused[1:]
        if unused:
            edits.append(Edit("drop unused arguments", partial(_drop_arguments, number, set(unused))))
        if len(unused) > 1:
            edits += [Edit(f"drop argument {each}", partial(_drop_arguments, number, {each})) for each in unused]
    return edits


def _drop_arguments(function: int, dropped: set[int], draft: Draft) -> None:
    block = draft.operations[function].regions[0][0]
    block.arguments = [value for index, value in enumerate(block.arguments) if index not in dropped]


#: Gives a value in place of a result of an operation; None if it has none.
Substitute = Callable[[Draft, Operation, Value], Value | None]


def by_argument(draft: Draft, operation: Operation, value: Value) -> Value | None:
    """A new argument, if the operation stands directly in a function."""
    function = draft.parent(operation)
    if function is None or not is_function(function) or not is_fixed_tensor(value.type) or is_constant(operation):
        return None
    return draft.new_argument(function, value.type)


def by_operand(draft: Draft, operation: Operation, value: Value, number: int = 0) -> Value | None:
    """The first of its own operands that has its type, or a later one."""
    fitting = [operand for operand in operation.operands if operand.type == value.type and operand is not value]
    distinct = list(dict.fromkeys(fitting))
    return distinct[number] if number < len(distinct) else None


def by_earlier(draft: Draft, operation: Operation, value: Value, number: int = 0) -> Value | None:
    """The last value before it that has its type, or the one of that number, counted backwards."""
    fitting = (each for each in draft.visible(operation) if each.type == value.type)
    for index, each in enumerate(fitting):
        if index == number:
            return each
    return None


def by_constant(draft: Draft, operation: Operation, value: Value, number: float = 0) -> Value | None:
    """A constant. One constant in place of another would be no progress."""
    return None if is_constant(operation) else draft.new_constant(operation, value.type, number)


#: What takes the place of many values at once: the name and how it is found.
IN_BULK: tuple[tuple[str, Substitute], ...] = (
    ("by operands", by_operand),
    ("by new arguments", by_argument),
    ("by 1", partial(by_constant, number=1)),
    ("by 0", by_constant),
    ("by earlier values", by_earlier),
)
#: What is tried in place of a single one.
SINGLE: tuple[tuple[str, Substitute], ...] = (
    *((f"by operand {number}", partial(by_operand, number=number)) for number in range(1, 3)),
    ("by 0.5", partial(by_constant, number=0.5)),
    *((f"by earlier value {number}", partial(by_earlier, number=number)) for number in range(1, MOST_VALUES)),
)


def removals(size: int) -> Edits:
    """Erase ranges of so many operations. What uses their results gets other values of the same types."""

    def edits(module: Module) -> list[Edit]:
        numbers = list(removable(module))
        ways = (*IN_BULK, *SINGLE) if size == 1 else IN_BULK
        found = []
        names = [one.name for one in walk(module.operation)]
        # The last first: what only they need goes with them.
        for end in range(len(numbers), 0, -size):
            chosen = numbers[max(0, end - size) : end]
            what = names[chosen[0]] if len(chosen) == 1 else f"{len(chosen)} operations"
            found += [Edit(f"erase {what}, {way}", partial(_remove, chosen, substitute)) for way, substitute in ways]
        return found

    return edits


def removable(module: Module) -> Iterator[int]:
    """Yield the numbers of the operations that may be erased: not the module, not @main, not what ends a block."""
    draft = Draft(module, {})
    for number, one in enumerate(draft.operations):
        if not draft.is_last(one) and attribute(one, "sym_name") != '"main"' and not _is_implied(draft.parent(one)):
            yield number


def _is_implied(parent: Operation | None) -> bool:
    """Return True for an operation whose body follows from its name: ``linalg.matmul``."""
    return parent is not None and parent.name.startswith("linalg.") and parent.name not in _WRITTEN_BODIES


def _remove(numbers: list[int], substitute: Substitute, draft: Draft) -> None:
    for number in reversed(numbers):
        operation = draft.operations[number]
        found = {value: substitute(draft, operation, value) for value in operation.results if draft.uses[value]}
        new = {value: other for value, other in found.items() if other is not None}
        for value, other in new.items():
            draft.replace(value, other)
        if len(new) == len(found):
            draft.erase(operation)


def hoists(module: Module) -> list[Edit]:
    """Put the body of an operation in its place: a loop's first turn, one branch of a condition."""
    edits = []
    for number, one in enumerate(walk(module.operation)):
        if number and not one.name.endswith(("func", "module")):
            for index, region in enumerate(one.regions):
                if len(region) == 1 and region[0].operations:
                    edits.append(Edit(f"hoist the body of {one.name}", partial(_hoist, number, index)))
    return edits


def _hoist(number: int, index: int, draft: Draft) -> None:
    operation = draft.operations[number]
    block = operation.regions[index][0]
    *body, last = block.operations
    if [value.type for value in last.operands] != [value.type for value in operation.results]:
        return
    operands = list(operation.operands)
    for argument in block.arguments:
        value = next((each for each in operands if each.type == argument.type), None)
        if value is None:
            value = draft.new_constant(operation, argument.type, 0)
        elif argument.type != "index":
            # Loops inside one another may all begin at one number.
            operands.remove(value)
        if value is None:
            return
        draft.replace(argument, value)
    for value, other in zip(operation.results, last.operands, strict=True):
        draft.replace(value, other)
    for one in body:
        draft.insert(operation, one)
    block.operations = [last]
    draft.erase(operation)
