"""Read the history of git repositories: of a local clone, or of a mirror of a remote repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.files import beside, locked, unwritable
from mlir_matrix.base.names import printable
from mlir_matrix.environments.source.process import clean_environment

#: Without prompts, remote helpers (``ext::``), hooks, and settings of a clone for its work tree.
GIT = (
    "env", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=file:git:http:https:ssh", "GIT_OPTIONAL_LOCKS=0",
    "git", "-c", "protocol.ext.allow=never", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "log.showSignature=false",
    "-c", "core.sparseCheckout=false", "-c", "core.fsmonitor=false", "-c", "submodule.recurse=false",
)  # fmt: skip
#: Branches and tags keep their names in the mirror.
_REFERENCES = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_DIGITS = re.compile("[0-9a-f]{7,40}")


class GitError(InfrastructureError):
    """A git command that fails."""


def local_folder(address: str) -> Path | None:
    """Return the git folder of a local clone, also of a folder in it; None for an address."""
    folder = Path(os.path.abspath(os.path.expanduser(address)))
    if not folder.is_dir():
        return None
    for each in (folder, *folder.parents):
        if (each / ".git").exists():
            return each / ".git"
        if (each / "HEAD").is_file() and (each / "objects").is_dir():
            return each
    return None


def objects_folder(git_folder: Path) -> Path:
    """Return the folder of git's objects; a linked work tree or a submodule has a file instead of a git folder."""
    if not git_folder.is_file():
        return git_folder / "objects"
    linked = git_folder.parent / git_folder.read_text().removeprefix("gitdir:").strip()
    common = linked / "commondir"
    return (linked / common.read_text().strip() if common.is_file() else linked) / "objects"


def history_folder(address: str, cache: Path) -> Path:
    """Return the git folder with the history of a repository: the clone itself, or its mirror in the cache."""
    return local_folder(address) or cache / "git" / f"{digest_value(address)[:16]}-history.git"


def mirror_command(address: str, folder: Path) -> Sequence[str]:
    """Clone commits and trees. If the server allows it, git fetches files only at checkout."""
    return (*GIT, "clone", "--quiet", "--bare", "--filter=blob:none", "--", address, str(folder))


@dataclass(frozen=True)
class Repository:
    """A repository whose history is on this machine."""

    address: str
    folder: Path

    def git(self, *words: str) -> str:
        """Return the output of a git command as text. Raise GitError."""
        return self.output(*words).decode("utf-8", "replace")

    def output(self, *words: str) -> bytes:
        """Return the output of a git command. Raise GitError."""
        verb = next(word for word in words if not word.startswith("-"))
        return _run((*GIT, f"--git-dir={self.folder}", *words), f"git {verb} in {self.address}")

    def succeeds(self, *words: str) -> bool:
        """Return whether a git command succeeds."""
        try:
            self.git(*words)
        except GitError:
            return False
        return True

    def commit(self, revision: str) -> str:
        """Return the full name of the commit that a tag, a branch or some digits stand for. Raise UsageError."""
        try:
            return self.git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").strip()
        except GitError as error:
            shown = printable(revision)
            if "ambiguous" in str(error):
                raise UsageError(f"'{shown}' begins several commits of {self.address}; write more digits") from None
            hint = f"; {self.deepen}" if self.is_shallow else ""
            raise UsageError(f"'{shown}' is no commit, tag or branch of {self.address}{hint}") from None

    def subject(self, commit: str) -> str:
        """Return the first line of a commit's message. Raise GitError."""
        return self.git("log", "-1", "--no-color", "--format=%s", commit).strip()

    @property
    def is_shallow(self) -> bool:
        """Return whether its history is cut off."""
        return self.git("rev-parse", "--is-shallow-repository").strip() == "true"

    @property
    def deepen(self) -> str:
        """Return the advice for a history that is cut off."""
        return f"its history is cut off; fetch all of it: git -C {self.top} fetch --unshallow"

    @property
    def top(self) -> Path:
        """Return the folder in which users run git."""
        return self.folder.parent if self.folder.name == ".git" else self.folder

    @property
    def changed_files(self) -> list[str]:
        """Return the tracked files of a clone's work tree with uncommitted changes; none if git fails."""
        if self.folder.name != ".git":
            return []
        words = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules")
        try:
            return [line[3:] for line in self.git(f"--work-tree={self.top}", *words).splitlines()]
        except GitError:
            return []

    def files_since(self, commit: str, folder: Path) -> list[str]:
        """Return the files of a folder of a clone that differ from a commit, new ones included, relative to it.

        Raise GitError.
        """
        tree = f"--work-tree={self.top}"
        words = (
            "diff",
            "--name-only",
            "--no-renames",
            "--no-ext-diff",
            "--ignore-submodules",
            "-z",
            commit,
            "--",
            str(folder),
        )
        new = ("ls-files", "--others", "--exclude-standard", "--full-name", "-z", "--", str(folder))
        found = [path for each in (words, new) for path in self.git(tree, *each).split("\0") if path]
        return sorted(os.path.relpath(self.top / path, folder) for path in found)

    def had(self, file: Path) -> bool:
        """Return whether a commit of a clone has a file, or may have: its history may be cut off. No if git fails."""
        path = f":(literal){os.path.relpath(file, self.top)}"
        try:
            return self.is_shallow or bool(self.git("log", "--all", "-1", "--format=%H", "--", path))
        except GitError:
            return False

    def write_files(self, commit: str, paths: Sequence[str], folder: Path) -> None:
        """Write the files of a commit below some of its paths into a new folder, as a checkout does. Raise GitError."""
        there = self.git("ls-tree", "--name-only", "-z", commit, "--", *paths).split("\0")[:-1]
        words = (f"--git-dir={self.folder}", f"--work-tree={folder}", "checkout", "--quiet", commit, "--", *there)
        # In the folder itself, which is removed also if this process is killed.
        index = folder / ".matrix-index"
        if there:
            _run(("env", f"GIT_INDEX_FILE={index}", *GIT, *words), f"git checkout of {commit} in {self.address}")
            index.unlink()

    def tag_before(self, commit: str, patterns: Iterable[str]) -> str:
        """Return the name of the nearest tag before a commit that matches any of these patterns; empty if none does."""
        words = [f"--match={pattern}" for pattern in patterns]
        try:
            return self.git("describe", "--tags", "--abbrev=0", *words, commit).strip()
        except GitError:
            return ""


def open_repository(
    address: str, cache: Path, revisions: Sequence[str], tell: Callable[[str], object] = lambda _: None
) -> Repository:
    """Open a repository that has these revisions: a local clone, or a mirror, which is created or updated.

    ``tell`` gets a message before a long operation. Raise UsageError, InfrastructureError.
    """
    if shutil.which("git") is None:
        raise InfrastructureError("no git on PATH, which reads the history; install it (Debian's package git)")
    if (address.startswith("-") or "::" in address or not address.isprintable()) and not os.path.isdir(address):
        raise UsageError(f"'{printable(address)}' is not an address or folder that git can fetch from")
    local = local_folder(address)
    if local is None and os.path.isdir(address):
        raise UsageError(f"{address} is not a git repository")
    found = Repository(address, history_folder(address, cache))
    if local is None:
        with locked(found.folder.with_suffix(".lock")):
            _update(found, revisions, tell)
    return found


def _update(mirror: Repository, revisions: Sequence[str], tell: Callable[[str], object]) -> None:
    """Clone a mirror, or fetch new commits if it lacks a revision or a revision is a branch. The caller holds its lock."""
    address, folder = mirror.address, mirror.folder
    if not folder.is_dir():
        tell(f"cloning {address}, once")
        try:
            with beside(folder) as scratch:
                _run(mirror_command(address, scratch / "git"), f"{address} cannot be cloned")
                os.rename(scratch / "git", folder)
        except OSError as error:
            raise unwritable(f"{address} cannot be cloned", error) from None
    elif not all(_is_fixed(mirror, revision) for revision in revisions):
        tell(f"fetching what is new in {address}")
        for left in folder.rglob("*.lock"):
            left.unlink(missing_ok=True)
        mirror.git("fetch", "--quiet", "--prune", "--no-recurse-submodules", "--", address, *_REFERENCES)


def _is_fixed(mirror: Repository, revision: str) -> bool:
    """Return whether a mirror has a revision that does not change: a tag, or digits of a commit."""
    name = revision if _DIGITS.fullmatch(revision) else f"refs/tags/{revision}"
    return mirror.succeeds("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")


def _run(command: Sequence[str], what: str) -> bytes:
    done = subprocess.run(command, env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no output"]
        said = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1])
        raise GitError(f"{what}: {said}")
    return done.stdout
