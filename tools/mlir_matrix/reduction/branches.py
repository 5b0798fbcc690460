"""Edits of control flow between blocks: let a branch go one way, and join blocks."""

from __future__ import annotations

from collections import Counter
from functools import partial

from mlir_matrix.reduction.draft import RETURNS, Draft, returns_of
from mlir_matrix.reduction.edits import Edit, functions_of
from mlir_matrix.reduction.tree import Block, Module, Operation, walk


def branches(module: Module) -> list[Edit]:
    """Let branches with a condition go one way; blocks that nothing reaches go. Join a block with its only predecessor."""
    operations = list(walk(module.operation))
    predecessors = Counter(block for one in operations for block in one.successors)
    edits = []
    for number, function in functions_of(module):
        if not any(one.operands for one in returns_of(function)):
            branching = [place for place, block in enumerate(function.regions[0]) if block.operations[-1].successors]
            edits += [Edit("return from a block", partial(_end, number, place)) for place in branching]
    joined = []
    for number, one in enumerate(operations):
        ways = one.successors
        if len(ways) > 1:
            edits += [Edit(f"let {one.name} go way {way}", partial(_go, number, way)) for way in range(len(ways))]
        elif ways and predecessors[ways[0]] == 1:
            joined.append(number)
    edits += [
        Edit("join blocks", partial(_join, chosen)) for chosen in (joined, *([each] for each in joined)) if chosen
    ]
    return edits


def _go(number: int, way: int, draft: Draft) -> None:
    branch = draft.operations[number]
    # The operands of the blocks stand last, in the order of the blocks.
    end = len(branch.operands) - sum(len(block.arguments) for block in branch.successors[way + 1 :])
    branch.operands = branch.operands[end - len(branch.successors[way].arguments) : end]
    branch.successors = [branch.successors[way]]
    branch.name = "llvm.br" if branch.name.startswith("llvm.") else "cf.br"
    branch.properties, branch.attributes = {}, {}
    _drop_unreached(draft, branch)


def _end(function: int, place: int, draft: Draft) -> None:
    parent = draft.operations[function]
    branch = parent.regions[0][place].operations[-1]
    branch.name, branch.operands, branch.successors = RETURNS[parent.name], [], []
    branch.properties, branch.attributes = {}, {}
    _drop_unreached(draft, branch)


def _join(numbers: list[int], draft: Draft) -> None:
    for number in numbers:
        branch = draft.operations[number]
        block, following = draft.block_of[branch], branch.successors[0]
        for argument, operand in zip(following.arguments, branch.operands, strict=True):
            draft.replace(argument, operand)
        block.operations[-1:] = following.operations
        draft.block_of.update(dict.fromkeys(following.operations, block))
        for region in draft.parent_of[block].regions:
            region[:] = [each for each in region if each is not following]


def _drop_unreached(draft: Draft, branch: Operation) -> None:
    """Drop the blocks of a region that no path from its first block reaches."""
    parent = draft.parent_of[draft.block_of[branch]]
    reached: dict[Block, None] = {}
    waiting = [region[0] for region in parent.regions if region]
    while waiting:
        block = waiting.pop()
        if block not in reached:
            reached[block] = None
            waiting += [following for one in block.operations for following in one.successors]
    for region in parent.regions:
        region[:] = [block for block in region if block in reached]
