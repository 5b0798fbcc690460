"""What a suite may say (``matrix/suites/NAME.yaml``): which tests, what is known of their outcomes, what must hold between runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictFloat, StrictInt, StrictStr

from mlir_matrix.catalog.models.base import Document, Glob, Name, NameGlob, Outcome, Text

Axis = Literal["framework", "pipeline", "target", "workload"]


class Block(Document):
    """A part of a suite: the product of its axes. Axes under ``zip`` advance together; an absent axis is ``["*"]``."""

    product: dict[Axis, tuple[NameGlob, ...]] = Field(default={})
    zip: dict[Axis, tuple[NameGlob, ...]] = Field(default={})
    pins: dict[Name, tuple[Name, ...]] = Field(default={})
    """Releases by component, one more axis each: ``llvm: ["18", "19"]`` gives every test as ``…@llvm=18`` and ``…@llvm=19``."""


class Exclusion(Document):
    """Tests left out by judgment. What cannot work is derived and needs no exclusion."""

    tests: Annotated[tuple[Glob, ...], Field(min_length=1)]
    reason: Text


class Expectation(Document):
    """Tests whose outcome is known to be other than ``pass``. Strict: when it passes, the run fails."""

    tests: Annotated[tuple[Glob, ...], Field(min_length=1)]
    outcome: Outcome
    reason: Text
    link: StrictStr | None = None


#: How two runs are compared: element for element equal (0 and -0 alike), or within the sum of the tolerances of both.
Within = Literal["exact", "tolerance"]
Factor = StrictInt | StrictFloat


class Scaling(Document):
    """Inputs times a number give outputs times a number; a tensor that is not named stays as it is."""

    inputs: Annotated[dict[Name, Factor], Field(min_length=1)]
    """Factor by input. Powers of two are exact."""
    outputs: dict[Name, Factor] = Field(default={})
    """Factor by output."""
    within: Within = "exact"


class Permutation(Document):
    """Renumbering a dimension, the same way in all inputs, renumbers it in the outputs; what has not got it stays as it is."""

    dim: Name
    """A named dimension of the workload."""
    within: Within = "exact"


class Batch(Document):
    """A batch gives what its two halves give, run one by one.

    Where the workload leaves the dimension open one kernel runs on all sizes; else the source is imported for each size.
    """

    dim: Name
    """The named dimension of the workload along which a batch is a batch; all outputs have it."""
    within: Within = "exact"


class Agreement(Document):
    """The outputs are those of the same workload in another cell; what is not named is as in the test itself."""

    framework: Name | None = None
    pipeline: Name | None = None
    target: Name | None = None
    within: Within = "exact"


class SameIr(Document):
    """The IR is that of the same workload in another cell, whatever values are called; what is not named is as in the test."""

    framework: Name | None = None
    pipeline: Name | None = None
    at: Name
    """The kind at which both are compared; where several steps give it, the last of them."""


class Property(Document):
    """What must hold between runs of a test; one of ``scaling``, ``permutation``, ``batch``, ``agrees``, ``same-ir``.

    Each test that it names has one more, ``FRAMEWORK/PIPELINE/TARGET/WORKLOAD~NAME``.
    """

    name: Name | None = None
    """What stands after the ``~`` in identifiers. Absent: the kind."""
    tests: Annotated[tuple[Glob, ...], Field(min_length=1)]
    scaling: Scaling | None = None
    permutation: Permutation | None = None
    batch: Batch | None = None
    agrees: Agreement | None = None
    same_ir: SameIr | None = Field(default=None, alias="same-ir")
    reason: Text

    @property
    def kinds(self) -> list[str]:
        """The kinds that are given; one where the file is right."""
        return [kind for kind, given in self._given().items() if given is not None]

    @property
    def called(self) -> str:
        """What stands after the ``~``."""
        return self.name or next(iter(self.kinds), "")

    @property
    def property_kind(self) -> PropertyKind:
        """What must hold."""
        return next(property_kind for property_kind in self._given().values() if property_kind is not None)

    def _given(self) -> dict[str, PropertyKind | None]:
        return {
            "scaling": self.scaling,
            "permutation": self.permutation,
            "batch": self.batch,
            "agrees": self.agrees,
            "same-ir": self.same_ir,
        }


PropertyKind = Scaling | Permutation | Batch | Agreement | SameIr
#: The kinds of properties, as they are written.
KINDS = ("scaling", "permutation", "batch", "agrees", "same-ir")


class Conflict(Document):
    """Two IR tests that are known to conflict: whatever passes one breaks the other."""

    tests: Annotated[tuple[Glob, ...], Field(min_length=2, max_length=2)]
    """Their identifiers, ``mlir/STEP/ir/CASE``."""
    reason: Text


class Suite(Document):
    """A matrix file (``matrix/suites/NAME.yaml``)."""

    description: Text
    blocks: tuple[Block, ...] = ()
    steps: tuple[NameGlob, ...] = ()
    """Steps whose IR tests belong to the suite."""
    include: tuple[Glob, ...] = ()
    """Tests added to the product."""
    exclude: tuple[Exclusion, ...] = ()
    expect: tuple[Expectation, ...] = ()
    weak: Literal["report", "fail"] = "report"
    """What becomes of a test that passes, but is weak: a trivial output, all zeros for instance, would pass, too. It is reported,
    or a failure."""
    properties: tuple[Property, ...] = ()
    """What must hold between runs of tests."""
    conflicts: tuple[Conflict, ...] = ()
    """IR tests that are known to conflict; `matrix conflicts` finds the others."""
