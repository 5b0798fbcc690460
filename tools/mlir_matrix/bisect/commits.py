"""List the commits between the ends of a bisection, as a history."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.text import first_few
from mlir_matrix.environments.source.repository import GitError, Repository

#: How many digits of a commit to show.
SHORT = 12


@dataclass(frozen=True, kw_only=True)
class Commits:
    """Commits in topological order, the oldest first, with the indices of their parents among them."""

    repository: Repository
    ids: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...]
    subjects: tuple[str, ...]
    #: The indices of the ends.
    good: int
    bad: int
    #: True if each merge stands for all commits that it merged.
    first_parent: bool
    #: Warnings for the user, before the search.
    warnings: tuple[str, ...] = ()

    def touching(self, paths: Iterable[str], *, literal: bool = False) -> frozenset[int]:
        """Return the indices of the commits that change files; ``paths``: files, folders, or patterns unless ``literal``."""
        names = ("--literal-pathspecs",) if literal else ()
        ends = [self.ids[self.bad], "--not", self.ids[self.good]]
        # Skip merges, whose changes are in the merged commits, unless a merge stands for these.
        kinds = ("--first-parent",) if self.first_parent else ("--full-history", "--no-merges")
        found = set(self.repository.git(*names, "rev-list", *kinds, *ends, "--", *paths).split())
        return frozenset(index for index, each in enumerate(self.ids) if each in found)

    def of_passes(self, passes: Iterable[str]) -> frozenset[int]:
        """Return the indices of the commits that change files of passes: those beside the files that define them."""
        words = [word for name in passes for word in ("-e", f'"{name}"')]
        if not words:
            return frozenset()
        try:
            found = self.repository.git("grep", "-l", "-z", "-F", *words, self.ids[self.bad], "--", "*.td")
        except GitError:
            # No file defines these passes.
            return frozenset()
        folders = {os.path.dirname(each.partition(":")[2]) or "." for each in found.split("\0") if each}
        # In MLIR, definitions and sources are in different folders.
        return self.touching(folders | {re.sub(r"\binclude/mlir/", "lib/", each) for each in folders}, literal=True)


def list_commits(
    repository: Repository,
    good: str,
    bad: str,
    *,
    first_parent: bool = False,
    options: tuple[str, str] = ("--good", "--bad"),
) -> Commits:
    """Return the good end and all ancestors of the bad end that are no ancestors of the good one.

    With ``first_parent``, a merge counts as one commit, and what it merged does not. ``options`` name the ends. Raise UsageError
    for ends that are unknown or between which there is nothing, InfrastructureError.
    """
    first, last = repository.commit(good), repository.commit(bad)
    older = f"{options[0]} {good}"
    newer = f"{options[1]} {bad}"
    _check_ends(repository, older, first, newer, last)
    only = ("--first-parent",) if first_parent else ()
    # Exclude the parents of the good end, but not the good end.
    ends = (last, "--not", f"{first}^@")
    text = repository.git("rev-list", "--topo-order", "--reverse", *only, "--format=%P%x09%s", *ends)
    lines = text.split("\n")
    pairs = zip(lines[::2], lines[1::2], strict=False)
    listed = {line.removeprefix("commit "): more.partition("\t")[::2] for line, more in pairs}
    _check_depth(repository, listed, first)
    if first not in listed:
        # The good end is on a merged branch, so every commit of the line comes after it.
        listed = {first: ("", repository.subject(first)), **listed}
    places = {commit: index for index, commit in enumerate(listed)}
    before = ((index - 1,) if index else () for index in range(len(listed)))
    among = (tuple(places[each] for each in names.split() if each in places) for names, _ in listed.values())
    return Commits(
        repository=repository,
        ids=tuple(listed),
        parents=tuple(before if first_parent else among),
        subjects=tuple(subject for _, subject in listed.values()),
        good=places[first],
        bad=places[last],
        first_parent=first_parent,
        warnings=tuple(_warnings(repository)),
    )


def fork(repository: Repository, one: str, other: str) -> str:
    """Return the newest common ancestor of two commits, for example of tags on release branches; empty if there is none."""
    try:
        return repository.git("merge-base", one, other).strip()
    except GitError:
        return ""


def _check_ends(repository: Repository, older: str, first: str, newer: str, last: str) -> None:
    """Raise UsageError unless one commit is an ancestor of the other one. Where ends part, the search begins at their fork."""
    if first == last:
        raise UsageError(f"{older} and {newer} are the same commit, {first[:SHORT]}; name two")
    if repository.succeeds("merge-base", "--is-ancestor", first, last):
        return
    if repository.succeeds("merge-base", "--is-ancestor", last, first):
        raise UsageError(f"{older} comes after {newer}; swap them")
    if repository.is_shallow:
        raise UsageError(f"{older} is not known to come before {newer}: {repository.deepen}")
    raise UsageError(f"{older} is no ancestor of {newer}, and they have no ancestor in common; choose another good end")


def _check_depth(repository: Repository, listed: Iterable[str], good: str) -> None:
    """Raise UsageError if the history is cut off between the ends."""
    if not repository.is_shallow:
        return
    cut = (repository.folder / repository.git("rev-parse", "--git-path", "shallow").strip()).read_text().split()
    if (set(cut) - {good}) & set(listed):
        raise UsageError(f"{repository.address} lacks commits between the ends: {repository.deepen}")


def _warnings(repository: Repository) -> Iterable[str]:
    if changed := repository.changed_files:
        yield f"{repository.address} has changes that are not committed ({first_few(changed, 1)}); they are not used"
