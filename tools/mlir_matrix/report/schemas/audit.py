"""Types of the document of ``matrix golden audit``, written by ``judge/audit.py``.

Within a version, keys may be added; none is removed or changes its meaning.
"""

from __future__ import annotations

from typing import Literal, final

from typing_extensions import TypedDict

from mlir_matrix.report.schemas.verdict import Number


class AuditCounts(TypedDict):
    """Counts of mutants: ``planted`` = ``mattered`` + ``not_mattering``, ``mattered`` = ``caught`` + ``missed``."""

    planted: int
    """Mutants: mutations at each of their sites, in each draw."""
    mattered: int
    """Mutants whose error exceeds the forward error bound on some element."""
    not_mattering: int
    caught: int
    """Of the mutants that mattered."""
    missed: int
    by_runner: int
    """Of the caught mutants: those that failed to run."""


class AuditSummary(AuditCounts):
    """Totals."""

    rejected: int
    """Mutants, in each draw, that do not compile; ``planted`` does not count them."""
    allowed: int
    """Runs that must pass: the kernel unchanged, contracted, reassociated."""
    allowed_flagged: int
    """Of the allowed runs: those that did not pass."""
    weak: int
    """Trivial outputs that pass a test."""
    slack: int
    """Layers that are more than eight times as large as any observed error."""
    not_audited: int


class AuditLayer(TypedDict):
    """The mutants that a tolerance layer decides."""

    layer: str
    """File, line and column; ``the runner`` for mutants that failed to run."""
    mattered: int
    caught: int


class AuditMutation(AuditCounts):
    """One mutation in one test, over all sites and draws."""

    mutation: str
    sites: int
    layers: list[AuditLayer]


class AuditTest(AuditCounts):
    """An audited test."""

    test: str
    workload: str
    draws: int
    """Number of draws; 1 if the inputs are the same in each draw."""
    mutations: list[AuditMutation]


class AuditMiss(TypedDict):
    """A mutant that matters and passes, with its worst element."""

    test: str
    mutation: str
    site: int
    where: str
    draw: int
    output: str
    index: list[int]
    error: Number
    bound: Number
    """The forward error bound of the element."""
    atol: str
    rtol: str
    layer: str
    """File, line and column of the layer that lets it through."""


@final
class AuditRun(TypedDict):
    """A run of an allowed change."""

    test: str
    mutation: str
    draw: int


class AuditFlagged(TypedDict):
    """A run of an allowed change that did not pass."""

    test: str
    mutation: str
    draw: int
    layer: str
    reason: str


class AuditBeyond(TypedDict):
    """A run of an allowed change whose error exceeds the forward error bound: the bound or the program is wrong."""

    test: str
    mutation: str
    draw: int
    output: str
    index: list[int]


class AuditWeak(TypedDict):
    """A trivial output that passes a test."""

    test: str
    output: str
    draws: list[int]


class AuditUse(TypedDict):
    """The share of a layer that runs that must pass used."""

    layer: str
    used: float
    """The largest error as a share of its bound."""
    looser: float | None
    """How many times as large as the largest error the bound is; null without any error."""
    tests: list[str]


class AuditFailure(TypedDict):
    """A test that could not be audited."""

    test: str
    reason: str


class Audit(TypedDict):
    """The results of an audit (`matrix golden audit --format json`)."""

    schema: Literal["mlir-matrix/audit/v1"]
    seeds: int
    summary: AuditSummary
    tests: list[AuditTest]
    misses: list[AuditMiss]
    flagged: list[AuditFlagged]
    beyond_bound: list[AuditBeyond]
    weak: list[AuditWeak]
    nothing_mattered: list[str]
    """Tests in which no mutant matters."""
    layers: list[AuditUse]
    """Layers whose bounds are not 0, the loosest first."""
    slack: list[AuditUse]
    """Layers that are too loose."""
    not_audited: list[AuditFailure]
