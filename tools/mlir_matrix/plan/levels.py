"""Name the levels of a test: what its importer and each of its steps give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.plan.graph import PlannedAction
from mlir_matrix.plan.planner import PlannedTests

#: The input of a step.
_IR = "ir"
#: The stages of compilers.
COMPILING = (Stage.IMPORT, Stage.LOWER, Stage.CODEGEN)


@dataclass(frozen=True)
class Level:
    """What an importer or a step gives."""

    #: ``import``, or the name of the step; the second time ``canonical#2``.
    name: str
    action: PlannedAction
    output: str


def levels_of(plan: PlannedTests, test: str) -> list[Level]:
    """Return the levels of a test, in the order of its steps."""
    needed = map(plan.graph.actions.__getitem__, plan.needed_by(test))
    actions = list(filter(is_level, needed))
    named = zip(level_names(actions), actions, strict=True)
    return [Level(name, action, output_of(action)) for name, action in named]


def is_level(action: PlannedAction) -> bool:
    """Return whether an action is an importer, or a step of a route."""
    return action.stage in COMPILING and (_is_import(action) or _IR in action.inputs)


def level_names(actions: Iterable[PlannedAction]) -> list[str]:
    """Return the names of the levels that actions give, in this order."""
    counts: Counter[str] = Counter()
    names = []
    for action in actions:
        name = "import" if _is_import(action) else action.label
        counts[name] += 1
        names.append(name if counts[name] == 1 else f"{name}#{counts[name]}")
    return names


def output_of(action: PlannedAction) -> str:
    """Return the name of the output that is the level."""
    return next(iter(action.outputs))


def _is_import(action: PlannedAction) -> bool:
    return action.stage == Stage.IMPORT and action.label.startswith("import/")
