"""Edits that drop operands and results of operations with a body: of ``linalg.generic``, of loops and conditions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial

from mlir_matrix.reduction.draft import Draft
from mlir_matrix.reduction.edits import Edit
from mlir_matrix.reduction.tree import Module, Operation, Value, split_list, walk

_SEGMENTS = ("operandSegmentSizes", "operand_segment_sizes")
#: How many operands, and how many arguments of its body, an operation has before those that a turn gives to the next.
_CARRIED = {"scf.for": (3, 1), "scf.if": (1, 0)}


def operands(module: Module) -> list[Edit]:
    """Drop what a body does not read, and results that are not used."""
    uses = Counter(value for one in walk(module.operation) for value in one.operands)
    edits = []
    for number, one in enumerate(walk(module.operation)):
        if one.name == "linalg.generic":
            edits += [
                Edit(f"drop operand {index} of {one.name}", partial(_drop_of_generic, number, index))
                for index in _idle_operands(one, uses)
            ]
        elif one.name in _CARRIED:
            for index, value in enumerate(one.results):
                if not uses[value]:
                    edits.append(Edit(f"drop result {index} of {one.name}", partial(_drop_carried, number, index)))
    return edits


def _idle_operands(generic: Operation, uses: Counter[Value]) -> Iterator[int]:
    """Yield the numbers of operands that the body does not read, and that no used result needs."""
    block = generic.regions[0][0]
    inputs = len(block.arguments) - max(1, len(generic.results))
    for index, argument in enumerate(block.arguments):
        result = index - inputs
        if result < 0:
            is_idle = not uses[argument]
        else:
            is_own = len(generic.results) > 1 and block.operations[-1].operands[result] is argument
            is_idle = len(generic.results) > 1 and not uses[generic.results[result]] and uses[argument] == int(is_own)
        if is_idle:
            yield index


def _drop_of_generic(number: int, index: int, draft: Draft) -> None:
    one = draft.operations[number]
    block = one.regions[0][0]
    result = index - len(one.operands) + len(one.results)
    del one.operands[index]
    del block.arguments[index]
    if result >= 0:
        del one.results[result]
        del block.operations[-1].operands[result]
    for attributes in (one.properties, one.attributes):
        if "indexing_maps" in attributes:
            maps = split_list(attributes["indexing_maps"])
            attributes["indexing_maps"] = f"[{', '.join(maps[:index] + maps[index + 1 :])}]"
        for name in _SEGMENTS:
            if name in attributes:
                attributes[name] = _one_fewer(attributes[name], 1 if result >= 0 else 0)


def _one_fewer(segments: str, place: int) -> str:
    """Subtract one from the number of that place: ``array<i32: 2, 1>``, ``dense<[2, 1]> : vector<2xi32>``."""
    body = re.search(r"(?<=: )\d[\d, ]*(?=>$)|(?<=\[)[\d, ]+|(?<=dense<)\d+(?=>)", segments)
    assert body is not None
    sizes = [int(size) for size in body[0].split(",")]
    sizes = sizes * 2 if len(sizes) == 1 else sizes
    sizes[place] -= 1
    return f"array<i32: {', '.join(map(str, sizes))}>" if "array" in segments else f"dense<{sizes}> : vector<2xi32>"


def _drop_carried(number: int, index: int, draft: Draft) -> None:
    """Drop a result, what each branch gives for it and, of a loop, its first value and the argument of the body."""
    one = draft.operations[number]
    operand, argument = _CARRIED[one.name]
    del one.results[index]
    for region in one.regions:
        if region:
            del region[0].operations[-1].operands[index]
    if one.name != "scf.if":
        body = one.regions[0][0]
        draft.replace(body.arguments[argument + index], one.operands[operand + index])
        del body.arguments[argument + index], one.operands[operand + index]
