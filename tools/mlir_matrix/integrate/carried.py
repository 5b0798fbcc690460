"""Read carried patches: files in the format of ``git format-patch``, or the commits of a branch above a merge base."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.header import decode_header, make_header
from functools import cached_property
from pathlib import Path

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import unwritable
from mlir_matrix.bisect.commits import fork
from mlir_matrix.environments.source.package import diff_of, patch_files
from mlir_matrix.environments.source.repository import Repository

_SUBJECT = re.compile(rb"^Subject: (?:\[PATCH[^\]]*\] )?(.*(?:\n[ \t].*)*)", re.MULTILINE)
_REVERTS = re.compile(rb"This reverts commit ([0-9a-f]{7,40})")
_PICKED = re.compile(rb"\(cherry picked from commit ([0-9a-f]{7,40})\)")
_FILE = re.compile(rb"^(?:\+\+\+ b|--- a)/([^\t\n]+)|^diff --git a/(.+?) b/", re.MULTILINE)
#: How diffs are written, so that any git applies them.
DIFF_WORDS = (
    *("-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)
_ODD = re.compile(r"[^A-Za-z0-9]+")
_LONGEST_NAME = 52


@dataclass(frozen=True)
class Patch:
    """A change that is carried on top of a commit."""

    #: The name of its file.
    name: str
    #: The bytes of its file: a message, then a diff.
    text: bytes

    @cached_property
    def subject(self) -> str:
        """The first line of its message; without a message, its name."""
        found = _SUBJECT.search(self.message)
        if found is None:
            return self.name
        words = " ".join(found[1].decode("utf-8", "replace").split())
        try:
            # As ``=?UTF-8?q?…?=`` where it is not ASCII.
            return str(make_header(decode_header(words)))
        except (LookupError, ValueError):
            return words

    @cached_property
    def message(self) -> bytes:
        """What precedes its diff."""
        return self.text[: len(self.text) - len(self.diff)]

    @cached_property
    def diff(self) -> bytes:
        """What changes files."""
        return diff_of(self.text)

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The files that it changes."""
        names = {one or other for one, other in _FILE.findall(self.diff)}
        return tuple(sorted(name.decode("utf-8", "replace") for name in names))

    @property
    def reverts(self) -> str:
        """Return the digits of the commit that it reverts; empty if it says of none."""
        found = _REVERTS.search(self.message)
        return found[1].decode() if found else ""

    @property
    def picked(self) -> str:
        """Return the digits of the commit from which it was cherry-picked; empty if it says of none."""
        found = _PICKED.search(self.message)
        return found[1].decode() if found else ""

    def with_diff(self, diff: bytes) -> Patch:
        """Return the patch with the same message and another diff."""
        return replace(self, text=self.message + diff)


def read_patches(folder: Path) -> list[Patch]:
    """Return the patches of a folder, in the order of their names. Raise UsageError, InfrastructureError."""
    if not folder.is_dir():
        raise UsageError(f"--patches {folder}: there is no such folder; expected one with files *.patch")
    try:
        found = [Patch(path.name, path.read_bytes()) for path in patch_files(folder, ".")]
    except OSError as error:
        raise unwritable(f"{folder} cannot be read", error) from None
    for patch in found:
        if not patch.diff:
            raise UsageError(
                f"{folder / patch.name}: it has no diff; expected a patch as of 'git format-patch' or 'git diff'"
            )
    return found


def patches_of_branch(repository: Repository, branch: str, start: str, end: str) -> list[Patch]:
    """Return the commits of a branch above its merge base with ``start``, the oldest first, as patches; none of upstream's.

    ``end``: the newest commit of upstream, on which the branch may be based already. Raise UsageError.
    """
    last = repository.commit(branch)
    base = fork(repository, start, last)
    if not base:
        raise UsageError(f"--patches {branch}: it has no commit in common with {start[:12]}")
    words = ("--topo-order", "--reverse", "--no-merges", last, f"^{base}", f"^{end}")
    commits = repository.git("rev-list", *words).split()
    patches = [patch_of(repository, commit, number) for number, commit in enumerate(commits, 1)]
    return [each for each in patches if each.diff]


def patch_of(repository: Repository, commit: str, number: int) -> Patch:
    """Return a commit as the patch with this number of a series, in the form of ``git format-patch``."""
    words = (
        f"--format=From {commit} Mon Sep 17 00:00:00 2001%nFrom: %an <%ae>%nDate: %aD%nSubject: [PATCH] %s%n%n%b---%n"
    )
    message = repository.output("log", "-1", "--no-color", words, commit)
    return _named(message + _difference(repository, f"{commit}^1", commit), f"{number:04}")


def revert_of(repository: Repository, commit: str, subject: str, number: int) -> Patch:
    """Return the patch that reverts a commit; of a merge, all that it merged."""
    message = (
        f'From: matrix integrate <>\nSubject: [PATCH] Revert "{subject}"\n\nThis reverts commit {commit}.\n---\n\n'
    )
    # Reverts come before all patches that are carried.
    return _named(message.encode() + _difference(repository, commit, f"{commit}^1"), f"0000-{number:02}")


def _difference(repository: Repository, old: str, new: str) -> bytes:
    """Return what differs between two commits, whatever the settings of the user say of diffs."""
    return repository.output("diff-tree", *DIFF_WORDS, old, new)


def _named(text: bytes, number: str) -> Patch:
    """Return the patch with a name as ``git format-patch`` gives it."""
    words = _ODD.sub("-", Patch("", text).subject).strip("-")[:_LONGEST_NAME].rstrip("-")
    return Patch(f"{number}-{words}.patch", text)


def kinds_of(patch: Patch) -> Iterator[str]:
    """Yield what a patch says of itself: which commit it reverts or was picked from."""
    if patch.reverts:
        yield f"reverts {patch.reverts[:12]}"
    if patch.picked:
        yield f"picked from {patch.picked[:12]}"
