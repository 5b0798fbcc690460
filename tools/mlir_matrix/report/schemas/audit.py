"""What the JSON document of ``matrix golden audit`` holds; its JSON Schema is made from this.

The document is written by ``judge/audit.py``, which returns these types. Within a version keys may join, and none leaves or
changes its meaning.
"""

from __future__ import annotations

from typing import Literal, final

from typing_extensions import TypedDict

from mlir_matrix.report.schemas.verdict import Number


class AuditCounts(TypedDict):
    """What became of plants. ``planted`` is ``mattered`` and ``not_mattering``, ``mattered`` is ``caught`` and ``missed``."""

    planted: int
    """Mutations, at each of their sites, in each draw."""
    mattered: int
    """Those whose error exceeds the a-priori bound on some element."""
    not_mattering: int
    caught: int
    """Of those that mattered."""
    missed: int
    by_runner: int
    """Of those caught: by not running to their end."""


class AuditSummary(AuditCounts):
    """Totals."""

    rejected: int
    """Mutants, in each draw, that do not compile; they are not among those planted."""
    allowed: int
    """Runs of what must pass: kernels as they are, contracted, reassociated."""
    allowed_flagged: int
    """Of those the ones that were no pass."""
    weak: int
    """Tests and trivial outputs that pass them."""
    slack: int
    """Layers that are more than eight times as large as any error that was seen."""
    not_audited: int


class AuditLayer(TypedDict):
    """How a tolerance layer did."""

    layer: str
    """File, line and column; ``the runner`` for what failed to run."""
    mattered: int
    caught: int


class AuditMutation(AuditCounts):
    """One mutation in one test, over all sites and draws."""

    mutation: str
    sites: int
    layers: list[AuditLayer]


class AuditTest(AuditCounts):
    """One test that was audited."""

    test: str
    workload: str
    draws: int
    """How many draws of the inputs: one where they are the same in each."""
    mutations: list[AuditMutation]


class AuditMiss(TypedDict):
    """A miscompile that matters and passes, by the element that shows it most."""

    test: str
    mutation: str
    site: int
    where: str
    draw: int
    output: str
    index: list[int]
    error: Number
    bound: Number
    """What sound arithmetic may come to there."""
    atol: str
    rtol: str
    layer: str
    """File, line and column of the layer that lets it through."""


@final
class AuditRun(TypedDict):
    """A run of what is allowed."""

    test: str
    mutation: str
    draw: int


class AuditFlagged(TypedDict):
    """A run of what is allowed that was no pass."""

    test: str
    mutation: str
    draw: int
    layer: str
    reason: str


class AuditBeyond(TypedDict):
    """A run of what is allowed that is further off than the a-priori bound: the bound or the program is wrong."""

    test: str
    mutation: str
    draw: int
    output: str
    index: list[int]


class AuditWeak(TypedDict):
    """A trivial output that passes."""

    test: str
    output: str
    draws: list[int]


class AuditUse(TypedDict):
    """How much of a layer was used by what must pass."""

    layer: str
    used: float
    """The largest share of its bound that an error took."""
    looser: float | None
    """How many times as large it is; null where no error was seen."""
    tests: list[str]


class AuditFailure(TypedDict):
    """A test that could not be audited."""

    test: str
    reason: str


class Audit(TypedDict):
    """What ``matrix golden audit --format json`` prints."""

    schema: Literal["mlir-matrix/audit/v1"]
    seeds: int
    summary: AuditSummary
    tests: list[AuditTest]
    misses: list[AuditMiss]
    flagged: list[AuditFlagged]
    beyond_bound: list[AuditBeyond]
    weak: list[AuditWeak]
    nothing_mattered: list[str]
    """Tests in which nothing that was planted matters."""
    layers: list[AuditUse]
    """Layers that leave room, the loosest first."""
    slack: list[AuditUse]
    """Those that are too loose."""
    not_audited: list[AuditFailure]
