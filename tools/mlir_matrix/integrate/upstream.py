"""Find what upstream did with a carried patch: the commit that has the same change, or the one since which it conflicts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from mlir_matrix.bisect.commits import Commits
from mlir_matrix.environments.source.repository import Repository
from mlir_matrix.integrate.carried import DIFF_WORDS, Patch
from mlir_matrix.integrate.patched_trees import PatchedTrees


@dataclass(frozen=True)
class UpstreamChanges:
    """The commits between the old and the new base."""

    commits: Commits
    trees: PatchedTrees

    def landed(self, patch: Patch) -> str:
        """Return the commit of upstream that does what a patch does; empty if none is known.

        It has the same diff, or is the commit that the patch was picked from, or has the same subject and changes the same files.
        """
        picked = self._known(patch.picked)
        if picked:
            return picked
        return self._by_patch_id(patch) or self._by_subject(patch)

    def since(self, patch: Patch, line: Sequence[str], others: Sequence[Patch]) -> str:
        """Return the first commit of a line, the oldest first, at which a patch is not applied any more after others.

        At the last one it is not: it conflicts, or is already there. It is assumed that this changes once. Empty: so it is at the
        first one.
        """

        def is_left_out(commit: str) -> bool:
            return patch.name in self.trees.apply(commit, [*others, patch]).left_out

        place = bisect_left(line, True, hi=len(line) - 1, key=is_left_out)
        return line[place] if place else ""

    def _known(self, digits: str) -> str:
        """Return the commit between the ends that digits stand for; empty if there is none."""
        found = [each for each in self.commits.ids if digits and each.startswith(digits)]
        return found[0] if found else ""

    def _by_patch_id(self, patch: Patch) -> str:
        if not patch.files:
            return ""
        ours = self._ids(patch.diff)
        return next((commit for number, commit in self._changes(patch.files) if number in ours), "")

    def _changes(self, files: Sequence[str]) -> list[tuple[str, str]]:
        """Return the patch ids of the commits that change files, with the commits."""
        ends = (self.commits.ids[self.commits.bad], f"^{self.commits.ids[self.commits.good]}")
        # Without what they change elsewhere, for example tests.
        words = ("log", "--no-merges", *DIFF_WORDS, *ends, "--", *files)
        changes = self.repository.output("--literal-pathspecs", *words)
        lines = self.trees.filtered(changes, "patch-id", "--stable").split()
        return list(zip(lines[::2], lines[1::2], strict=True))

    def _ids(self, diff: bytes) -> set[str]:
        return set(self.trees.filtered(diff, "patch-id", "--stable").split()[::2])

    def _by_subject(self, patch: Patch) -> str:
        same = [index for index, subject in enumerate(self.commits.subjects) if subject == patch.subject]
        if not same or not patch.files:
            return ""
        touching = self.commits.touching(patch.files, literal=True)
        return next((self.commits.ids[index] for index in reversed(same) if index in touching), "")

    @property
    def repository(self) -> Repository:
        """The repository of upstream."""
        return self.commits.repository
