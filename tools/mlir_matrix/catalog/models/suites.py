"""Define the models of a suite (``matrix/suites/NAME.yaml``), of the quarantine of flaky tests, and of known findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, StrictFloat, StrictInt, StrictStr

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.names import TestId
from mlir_matrix.catalog.models.base import Conditions, Document, Glob, Name, NameGlob, Text, matching

#: Literals, so that editors list them and messages name them.
ExpectedOutcome = Literal[
    Outcome.UNSUPPORTED, Outcome.SKIPPED, Outcome.IMPORT_FAILED, Outcome.LOWER_FAILED, Outcome.CODEGEN_FAILED,
    Outcome.RUN_FAILED, Outcome.MISMATCH, Outcome.SLOWER, Outcome.PASS, Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.INFRA_ERROR,
]  # fmt: skip
Axis = Literal["framework", "pipeline", "target", "workload"]


class SuiteBlock(Document):
    """A part of a suite: the product of its axes. Axes under ``zip`` advance together; an absent axis is ``["*"]``."""

    steps: tuple[NameGlob, ...] = ()
    """Instead of ``product`` and ``zip``: steps whose IR tests the block selects, under ``pins`` as ``…/ir/CASE@llvm=18``."""
    product: dict[Axis, tuple[NameGlob, ...]] = Field(default={})
    zip: dict[Axis, tuple[NameGlob, ...]] = Field(default={})
    pins: dict[Name, tuple[Name, ...]] = Field(default={})
    """Releases by component, one more axis each: ``llvm: ["18", "19"]`` selects every test as ``…@llvm=18`` and ``…@llvm=19``."""


class Exclusion(Document):
    """Tests that the suite leaves out. Unsupported tests are found without exclusions."""

    tests: Annotated[tuple[Glob, ...], Field(min_length=1)]
    reason: Text


class Expectation(Document):
    """Tests with an expected outcome other than ``pass``. It is strict: if such a test passes, the run fails."""

    tests: Annotated[tuple[Glob, ...], Field(min_length=1)]
    outcome: ExpectedOutcome
    reason: Text
    link: StrictStr | None = None


Cell = Annotated[
    StrictStr,
    matching(
        r"^[^/@\s]+(/[^/@\s]+){2}(@[^/@\s]+)?$", "a cell: framework/pipeline/target, then '@' and pins if any vary"
    ),
]


class ExpectedTests(Document):
    """Tests of one cell that end alike, for one reason."""

    outcome: ExpectedOutcome
    reason: Text
    """Without what differs between tests: numbers, shapes, names of values."""
    cell: Cell
    tests: Annotated[
        tuple[Annotated[StrictStr, matching(r"^[^/@\s*?]+$", "a workload, or WORKLOAD~PROPERTY")], ...],
        Field(min_length=1),
    ]
    """Workloads in this cell, also as ``WORKLOAD~PROPERTY``; no patterns."""
    link: StrictStr | None = None

    @property
    def identifiers(self) -> list[str]:
        """The identifiers of the tests, in order."""
        return [str(TestId.in_cell(self.cell, test)) for test in self.tests]


class Expectations(Document):
    """Tests of the suite SUITE that fail (``matrix/expectations/SUITE.yaml``), written by ``matrix expect SUITE --write``.

    They join the suite's own ``expect``, and are as strict.
    """

    expect: tuple[ExpectedTests, ...] = ()


#: How two runs are compared: element for element equal (0 and -0 alike), or within the sum of the tolerances of both.
Within = Literal["exact", "tolerance"]
Factor = StrictInt | StrictFloat


class Scaling(Document):
    """Inputs times a number give outputs times a number; tensors that are not named stay the same."""

    inputs: Annotated[dict[Name, Factor], Field(min_length=1)]
    """Factors by input. Powers of two are exact."""
    outputs: dict[Name, Factor] = Field(default={})
    """Factors by output."""
    within: Within = "exact"


class Permutation(Document):
    """Renumbering a dimension in all inputs renumbers it in the outputs; tensors without it stay the same."""

    dim: Name
    """A named dimension of the workload."""
    within: Within = "exact"


class Batch(Document):
    """A batch gives the same outputs as its two halves, run separately.

    If the workload leaves the dimension open, one kernel runs on all sizes; else the source is imported for each size.
    """

    dim: Name
    """The named dimension of the batch; all outputs have it."""
    within: Within = "exact"


class Agreement(Document):
    """The outputs are those of the same workload in another cell; axes that are not named are those of the test."""

    framework: Name | None = None
    pipeline: Name | None = None
    target: Name | None = None
    within: Within = "exact"

    @property
    def cell(self) -> dict[str, str | None]:
        """The names of the other cell, by axis."""
        return {"framework": self.framework, "pipeline": self.pipeline, "target": self.target}


class SameIr(Document):
    """The IR is that of the same workload in another cell, but for names of values; axes not named are those of the test."""

    framework: Name | None = None
    pipeline: Name | None = None
    at: Name
    """The kind at which both are compared, after the last step that gives it."""

    @property
    def cell(self) -> dict[str, str | None]:
        """The names of the other cell, by axis."""
        return {"framework": self.framework, "pipeline": self.pipeline}


class Property(Document):
    """A relation between runs of a test; one of ``scaling``, ``permutation``, ``batch``, ``agrees``, ``same-ir``.

    It adds a test ``FRAMEWORK/PIPELINE/TARGET/WORKLOAD~NAME`` for each test that it names.
    """

    name: Name | None = None
    """The text after the ``~`` in identifiers. Absent: the kind."""
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
    """Two IR tests that are known to conflict: a step that passes one fails the other."""

    tests: Annotated[tuple[Glob, ...], Field(min_length=2, max_length=2)]
    """Their identifiers, ``mlir/STEP/ir/CASE``."""
    reason: Text


class Suite(Document):
    """A matrix file (``matrix/suites/NAME.yaml``)."""

    description: Text
    suites: tuple[Name, ...] = ()
    """Suites whose tests belong to this one, too. Their rules apply to all of its tests."""
    blocks: tuple[SuiteBlock, ...] = ()
    steps: tuple[NameGlob, ...] = ()
    """Steps whose IR tests belong to the suite; a block with ``steps`` and ``pins`` varies releases."""
    include: tuple[Glob, ...] = ()
    """Tests added to the product."""
    exclude: tuple[Exclusion, ...] = ()
    expect: tuple[Expectation, ...] = ()
    weak: Literal["report", "fail"] = "report"
    """How a weak pass counts, that is, if a trivial output such as all zeros would pass too: it is reported, or it is a failure."""
    cost: Literal["note", "fail"] | None = None
    """Count what each test costs (docs/cost-goldens.md). A test that passes and costs more than its golden is noted, or it is
    ``slower``, which is a failure. Absent: costs are not counted."""
    properties: tuple[Property, ...] = ()
    """Relations between runs of tests."""
    conflicts: tuple[Conflict, ...] = ()
    """Known conflicts of IR tests; `matrix conflicts` finds the others."""

    xfail_sets: dict[Cell, Annotated[tuple[Name, ...], Field(min_length=1)]] = Field(default={})
    """By cell, the names of the sets in upstream's Python file with the tests that upstream expects to fail there, or does not run:
    ``matrix expect SUITE --from FILE`` compares them with our results."""

    def workload_globs(self) -> Iterator[str]:
        """Yield the globs that choose workloads: those of ``include``, of tests, and of blocks, of names."""
        yield from self.include
        for block in self.blocks:
            yield from block.product.get("workload", ())
            yield from block.zip.get("workload", ())


class Quarantined(Document):
    """Flaky tests whose unexpected outcomes are reported, and do not fail a run, until a day."""

    tests: Annotated[tuple[Glob, ...], Field(min_length=1)]
    owner: Text
    """The person who finds the cause."""
    until: Annotated[StrictStr, matching(r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$", "a day, such as 2026-12-31")]
    """The last day, in UTC."""
    reason: Text
    link: StrictStr | None = None


class Quarantine(Document):
    """The quarantine of a catalog (``matrix/quarantine.yaml``)."""

    quarantine: tuple[Quarantined, ...] = ()


class KnownFinding(Conditions):
    """A finding of ``matrix fuzz`` that needs no report, in the releases for which its conditions hold."""

    key: Annotated[StrictStr, matching(r"^[0-9a-f]{12}$", "the key of a finding: 12 hexadecimal digits")]
    link: Text
    """Where it is reported."""
    reason: Text
    """What goes wrong."""


class KnownFindings(Document):
    """The findings of ``matrix fuzz`` that are known (``matrix/known-findings.yaml``)."""

    findings: tuple[KnownFinding, ...] = ()
