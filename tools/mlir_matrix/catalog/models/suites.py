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
    #: Releases by component, one more axis each: ``llvm: ["18", "19"]`` gives every test as ``…@llvm=18`` and ``…@llvm=19``.
    pins: dict[Name, tuple[Name, ...]] = Field(default={})


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

    #: Factor by input. Powers of two are exact.
    inputs: Annotated[dict[Name, Factor], Field(min_length=1)]
    #: Factor by output.
    outputs: dict[Name, Factor] = Field(default={})
    within: Within = "exact"


class Permutation(Document):
    """Renumbering a dimension, the same way in all inputs, renumbers it in the outputs; what has not got it stays as it is."""

    #: A named dimension of the workload.
    dim: Name
    within: Within = "exact"


class Batch(Document):
    """A batch gives what its two halves give, run one by one.

    Where the workload leaves the dimension open one kernel runs on all sizes; else the source is imported for each size.
    """

    #: The named dimension of the workload along which a batch is a batch; all outputs have it.
    dim: Name
    within: Within = "exact"


class Agreement(Document):
    """The outputs are those of the same workload in another cell; what is not named is as in the test itself."""

    framework: Name | None = None
    pipeline: Name | None = None
    target: Name | None = None
    within: Within = "exact"

    @property
    def cell(self) -> dict[str, str | None]:
        """The names of the other cell, by axis."""
        return {"framework": self.framework, "pipeline": self.pipeline, "target": self.target}


class SameIr(Document):
    """The IR is that of the same workload in another cell, whatever values are called; what is not named is as in the test."""

    framework: Name | None = None
    pipeline: Name | None = None
    #: The kind at which both are compared; where several steps give it, the last of them.
    at: Name

    @property
    def cell(self) -> dict[str, str | None]:
        """The names of the other cell, by axis."""
        return {"framework": self.framework, "pipeline": self.pipeline}


class Property(Document):
    """What must hold between runs of a test; one of ``scaling``, ``permutation``, ``batch``, ``agrees``, ``same-ir``.

    Each test that it names has one more, ``FRAMEWORK/PIPELINE/TARGET/WORKLOAD~NAME``.
    """

    #: What stands after the ``~`` in identifiers. Absent: the kind.
    name: Name | None = None
    tests: Annotated[tuple[Glob, ...], Field(min_length=1)]
    scaling: Scaling | None = None
    permutation: Permutation | None = None
    batch: Batch | None = None
    agrees: Agreement | None = None
    same_ir: SameIr | None = Field(default=None, alias="same-ir")
    reason: Text

    @property
    def kinds(self) -> list[str]:
        """The kinds that are given; exactly one, which is checked after loading."""
        given = (self.scaling, self.permutation, self.batch, self.agrees, self.same_ir)
        return [kind for kind, found in zip(KINDS, given, strict=True) if found is not None]

    @property
    def called(self) -> str:
        """The text after the ``~``."""
        return self.name or next(iter(self.kinds), "")

    @property
    def property_kind(self) -> PropertyKind:
        """What must hold."""
        found = self.scaling or self.permutation or self.batch or self.agrees or self.same_ir
        assert found is not None
        return found


PropertyKind = Scaling | Permutation | Batch | Agreement | SameIr
#: The kinds of properties, as they are written.
KINDS = ("scaling", "permutation", "batch", "agrees", "same-ir")


class Conflict(Document):
    """Two IR tests that are known to conflict: whatever passes one breaks the other."""

    #: Their identifiers, ``mlir/STEP/ir/CASE``.
    tests: Annotated[tuple[Glob, ...], Field(min_length=2, max_length=2)]
    reason: Text


class Suite(Document):
    """A matrix file (``matrix/suites/NAME.yaml``)."""

    description: Text
    blocks: tuple[Block, ...] = ()
    #: Steps whose IR tests belong to the suite.
    steps: tuple[NameGlob, ...] = ()
    #: Tests added to the product.
    include: tuple[Glob, ...] = ()
    exclude: tuple[Exclusion, ...] = ()
    expect: tuple[Expectation, ...] = ()
    #: What becomes of a test that passes, but is weak: a trivial output, all zeros for instance, would pass, too. It is reported,
    #: or a failure.
    weak: Literal["report", "fail"] = "report"
    #: What must hold between runs of tests.
    properties: tuple[Property, ...] = ()
    #: IR tests that are known to conflict; `matrix conflicts` finds the others.
    conflicts: tuple[Conflict, ...] = ()
