"""The document of ``matrix integrate``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from mlir_matrix.base.documents import document


class UpstreamCommit(TypedDict):
    """A commit of the component's repository."""

    commit: str
    subject: str


class IntegrationBreak(TypedDict):
    """What one commit broke in one way."""

    kind: Literal["test", "build"]
    fault: Literal["upstream", "patch", "catalog"]
    """What has to change."""
    because: str
    patch: str
    """The carried patch at fault; empty if none is."""
    tests: list[str]
    outcome: str
    """Of these tests; `build` if the commit cannot be built."""
    reason: str
    culprits: list[UpstreamCommit]
    """One of these is the culprit: more than one if those between cannot be built."""
    shown_at: UpstreamCommit
    last_good: UpstreamCommit
    builds: int
    """How many commits were tried to find it."""
    behind: list[str]
    """The reverts with which it was found, because another break hid it."""
    pin: str
    """For `--pin`: the folder of the build that shows it."""
    report: str
    """The file of its issue text; empty if none was written."""
    program: str
    """The reduced program of the first test; empty if there is none."""
    reduction: str
    """The folder of its reduction; empty if there is none."""
    trouble: str
    """Why it cannot be reduced, or was not; empty if it was, or that was not asked for."""


class FollowedRename(TypedDict):
    """A pass or option that a commit gave another name, which a step follows."""

    step: str
    old: str
    new: str
    culprit: UpstreamCommit


class CarriedPatch(TypedDict):
    """A carried patch at the furthest green commit."""

    name: str
    subject: str
    says: list[str]
    """What it says of itself: which commit it reverts or was picked from."""
    state: Literal["upstreamed", "unneeded", "needed", "conflicts", "unknown"]
    reason: str
    commit: str
    """The commit of upstream that has it, or since which it conflicts; empty if none is known."""
    tests: list[str]
    """Needed: those that fail without it."""
    refreshed: bool
    """Whether it applies only by a merge, so that its text changes."""


class WithReverts(TypedDict):
    """The newest commit, with reverts of the culprits."""

    newest: UpstreamCommit
    reverts: list[str]
    green: bool
    trouble: str


class ProposedBranch(TypedDict):
    """A branch that was made."""

    name: str
    repository: str
    commits: int


class ProposedPatch(TypedDict):
    """A patch of a folder that is in no repository."""

    folder: str
    patch: str


class IntegrationSummary(TypedDict):
    """Numbers of an integration."""

    commits: int
    trials: int
    """How many commits were tried, each with some patches; one that was tried before is not built again."""
    tests: int
    seconds: float
    breaks: int
    needed: int


@document
class IntegrationDocument(TypedDict):
    """What became of a pin and of carried patches (`matrix integrate --format json`)."""

    schema: Literal["mlir-matrix/integration/v1"]
    component: str
    start: UpstreamCommit
    newest: UpstreamCommit
    furthest: UpstreamCommit
    """The furthest commit at which everything expected holds."""
    pin: UpstreamCommit
    """The commit that the branch pins: the furthest, or the newest one with reverts."""
    complete: bool
    """False if the time was over before the search ended."""
    assumed: str
    """Under what assumption it is the furthest."""
    broken_before: list[str]
    """Tests that are not as expected at the start; they do not count."""
    flaky: dict[str, str]
    """Tests that failed by chance, with a commit where they did."""
    breaks: list[IntegrationBreak]
    renames: list[FollowedRename]
    patches: list[CarriedPatch]
    reverts: WithReverts | None
    changes: list[str]
    """The subjects of the commits that the branch has, or would have."""
    not_proposed: str
    """Why there is no branch; empty if there is one, or nothing to change."""
    branches: list[ProposedBranch]
    """The branches that were made, one of each repository that has a catalog."""
    patches_to_apply: list[ProposedPatch]
    """Of catalogs in no repository: the files with their changes, in the folder, for `git apply`."""
    folder: str
    """The folder with the patch of all changes, the text of a pull request, and a text for each issue."""
    summary: IntegrationSummary
