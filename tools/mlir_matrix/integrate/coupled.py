"""Read which releases of other components go with a commit: a file of the repository or a submodule names them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.commit_releases import CommitSource, find_source, with_commits
from mlir_matrix.catalog.models.toolchains import Release
from mlir_matrix.catalog.pins import find_release
from mlir_matrix.catalog.releases import number
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.source.repository import GitError, Repository, open_repository

#: How git lists a submodule.
_SUBMODULE = "160000"
_SHORTEST_COMMIT = 7
#: The number of a release, and no commit.
_NUMBER = re.compile(r"\d{1,4}(\.\d+)*(\+\S+)?")


@dataclass(frozen=True)
class CoupledRelease:
    """A release that goes with a commit."""

    release: str
    #: Of one that no file of a catalog lists: the commit that it is built from.
    commit: str = ""


@dataclass(frozen=True)
class CoupledPins:
    """The pins of other components that each commit names."""

    repository: Repository
    source: CommitSource

    def named_at(self, commit: str) -> dict[str, str]:
        """Return by component what a commit names: a release, a tag or a commit. Raise UsageError if it names nothing."""
        return {component: self._named(commit, component, path) for component, path in self.source.build.pins.items()}

    def _named(self, commit: str, component: str, path: str) -> str:
        listed = self.repository.git("ls-tree", commit, "--", path).split()
        if listed[:1] == [_SUBMODULE]:
            return listed[2]
        try:
            words = self.repository.git("show", f"{commit}:{path}").split()
        except GitError:
            words = []
        if not words:
            raise UsageError(f"{commit[:12]} has no {path} that names the {component} that goes with it")
        return words[0]

    def with_pins_of(self, session: Session, commit: str) -> tuple[Session, dict[str, CoupledRelease]]:
        """Return the session with the releases that a commit names, and these by component. Raise UsageError."""
        found: dict[str, CoupledRelease] = {}
        for component, word in self.named_at(commit).items():
            session, found[component] = _released(session, component, word)
        return session, found

    def first_with(self, session: Session, line: Sequence[str], component: str, least: str) -> int:
        """Return the place of the first commit of a line whose pin of a component is at least this release.

        The numbers are assumed to grow along the line. Raise UsageError if no commit has it.
        """

        def is_enough(commit: str) -> bool:
            release = _released(session, component, self.named_at(commit)[component])[1].release
            return number(release) >= number(least)

        if not is_enough(line[-1]):
            named = self.named_at(line[-1])[component]
            raise UsageError(f"--goal {component}>={least}: the newest commit goes with {named}")
        return bisect_left(line, True, key=is_enough)


def _released(session: Session, component: str, word: str) -> tuple[Session, CoupledRelease]:
    """Return the release that a word names, in a session that has it. Raise UsageError."""
    entry = session.catalog.components[component]
    for release in entry.document.releases:
        if word in (release.release, release.commit) or _same_commit(release, word):
            return session, CoupledRelease(release.release)
    is_number = _NUMBER.fullmatch(word) is not None
    if is_number or entry.document.build is None:
        return session, CoupledRelease(find_release(entry, word).release)
    source = find_source(session.catalog, component)
    repository = open_repository(source.repository, session.home.cache, [word])
    commit = repository.commit(word)
    session, (made,) = with_commits(session, source, repository, [commit])
    return session, CoupledRelease(made, commit)


def _same_commit(release: Release, word: str) -> bool:
    commit = release.commit or ""
    return min(len(commit), len(word)) >= _SHORTEST_COMMIT and (commit.startswith(word) or word.startswith(commit))
