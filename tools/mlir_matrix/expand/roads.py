"""What a road is: from the kind that a framework emits, by steps with their values, to a kind that a target runs."""

from __future__ import annotations

from dataclasses import dataclass

from mlir_matrix.catalog.models.base import ParameterValue
from mlir_matrix.expand.recipes import Recipe


@dataclass(frozen=True, slots=True)
class Argument:
    """The value that a step's parameter has on a road, and the line that gave it."""

    name: str
    value: ParameterValue
    #: ``file:line:column``, in the pipeline where it sets the value, else of the step's default.
    position: str
    default: bool


@dataclass(frozen=True, slots=True)
class RoadStep:
    """A step as a pipeline uses it: from one kind to the next, with all its parameters."""

    name: str
    takes: str
    gives: str
    arguments: tuple[Argument, ...]
    #: Where the pipeline, or the target, names the step.
    position: str
    recipe: Recipe

    @property
    def parameters(self) -> dict[str, ParameterValue]:
        """The values by name, ready for ``${name}``."""
        return {argument.name: argument.value for argument in self.arguments}


@dataclass(frozen=True, slots=True)
class Road:
    """From the kind that a framework emits to a kind that a target runs."""

    kind: str
    #: File in the workload's folder from which the framework makes ``kind``.
    source: str
    steps: tuple[RoadStep, ...]
    #: Where the pipeline opens this entry.
    position: str
    ingress: Recipe
    #: The environments that link and run, as plans name them.
    linker: str
    runner: str

    @property
    def ends(self) -> str:
        """The kind that the target is given."""
        return self.steps[-1].gives
