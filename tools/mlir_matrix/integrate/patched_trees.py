"""Apply carried patches to commits in memory: git's index and object store, and no work tree.

A patch applies as it is, or by a three-way merge, which gives it another text. A patch that can be taken back, or whose merge
changes nothing, is already there.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from mlir_matrix.environments.source.command_lines import patching_git
from mlir_matrix.environments.source.process import clean_environment
from mlir_matrix.environments.source.repository import GitError, Repository
from mlir_matrix.integrate.carried import DIFF_WORDS, Patch

_FAILED = re.compile(r"error: patch failed: (.+)")
_ABSENT = re.compile(r"error: (.+?): (does not exist in index|already exists in index|No such file or directory)")


@dataclass(frozen=True)
class LeftOut:
    """A patch that is not applied at a commit."""

    #: True if what it does is already there; else it conflicts.
    is_there: bool
    #: Where it conflicts: files with lines.
    where: tuple[str, ...] = ()


@dataclass(frozen=True)
class AppliedPatches:
    """Patches at a commit."""

    #: The git tree with all of them.
    tree: str
    #: Those that are applied, with texts that apply as they are.
    patches: tuple[Patch, ...]
    #: Those that are not, by name.
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)


@dataclass(frozen=True)
class PatchedTrees:
    """Applies patches to commits of a repository; new objects are in a folder of ours."""

    repository: Repository
    objects: Path

    def apply(self, commit: str, patches: Sequence[Patch]) -> AppliedPatches:
        """Apply patches in order, each on what those before it gave. Raise GitError."""
        tree = self.repository.git("rev-parse", f"{commit}^{{tree}}").strip()
        applied, left_out = list[Patch](), dict[str, LeftOut]()
        for patch in patches:
            after, diff = self._apply_one(tree, patch)
            if diff is not None:
                applied.append(patch.with_diff(diff) if diff else patch)
                tree = after
            elif after:
                left_out[patch.name] = LeftOut(is_there=True)
            else:
                left_out[patch.name] = LeftOut(is_there=False, where=self.conflicts(tree, patch))
        return AppliedPatches(tree, tuple(applied), left_out)

    def _apply_one(self, tree: str, patch: Patch) -> tuple[str, bytes | None]:
        """Return the tree with a patch, and the diff if it is another one than the patch's (empty: it is not).

        The diff is None if the patch is not applied: then the tree is returned if the patch is already in it, else ''.
        """
        self._read(tree)
        if self._try(patch, "--cached"):
            return self._write(), b""
        if self._try(patch, "--cached", "--reverse", "--check"):
            return tree, None
        merged = self._try(patch, "--cached", "--3way")
        after = self._write() if merged else ""
        if after == tree or not after:
            return after, None
        return after, self._output("diff-tree", *DIFF_WORDS, tree, after)

    def conflicts(self, tree: str, patch: Patch) -> tuple[str, ...]:
        """Return where a patch does not apply to a tree: files, with lines where git names them."""
        self._read(tree)
        done = self._call(patch.text, "apply", "--cached", "--check", "-")
        said = done.stderr.decode("utf-8", "replace")
        return tuple(dict.fromkeys([*_FAILED.findall(said), *(f"{name} {why}" for name, why in _ABSENT.findall(said))]))

    def filtered(self, data: bytes, *words: str) -> str:
        """Return what a git command makes of data. Raise GitError."""
        return self._output(*words, data=data).decode()

    @cached_property
    def _words(self) -> tuple[str, ...]:
        self.objects.mkdir(parents=True, exist_ok=True)
        # A git that was killed left it: the caller is the only user of the folder.
        (self.objects / "index.lock").unlink(missing_ok=True)
        index = f"GIT_INDEX_FILE={self.objects / 'index'}"
        return ("env", index, *patching_git(self.repository.folder, self.objects))

    def _read(self, tree: str) -> None:
        self._output("read-tree", tree)

    def _write(self) -> str:
        return self._output("write-tree").decode().strip()

    def _try(self, patch: Patch, *words: str) -> bool:
        return self._call(patch.text, "apply", *words, "-").returncode == 0

    def _output(self, *words: str, data: bytes = b"") -> bytes:
        done = self._call(data, *words)
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise GitError(f"git {words[0]} in {self.repository.address}: {said}")
        return done.stdout

    def _call(self, data: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            (*self._words, *words), input=data, env=clean_environment(), capture_output=True, check=False
        )
