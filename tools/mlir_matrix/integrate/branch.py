"""Write proposed changes as a branch of the catalog's repository, without touching its work tree, and as a patch."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.text import patch
from mlir_matrix.environments.source.process import clean_environment
from mlir_matrix.environments.source.repository import GIT, Repository, local_folder
from mlir_matrix.integrate.changes import FileCommit

#: Who commits where git knows no person.
_DEFAULT_PERSON = ("GIT_COMMITTER_NAME=matrix", "GIT_COMMITTER_EMAIL=", "GIT_AUTHOR_NAME=matrix", "GIT_AUTHOR_EMAIL=")


@dataclass(frozen=True)
class Branch:
    """A branch that was made."""

    repository: Path
    name: str


def by_place(changes: Sequence[FileCommit], roots: Sequence[Path]) -> dict[Path, list[FileCommit]]:
    """Return the changes by the folder that their files are relative to: of a repository, else of a catalog."""
    found: dict[Path, list[FileCommit]] = {}
    for change in changes:
        parts: dict[Path, dict[Path, bytes | None]] = {}
        for path, text in change.files.items():
            real = path.resolve()
            parts.setdefault(_place(real, roots), {})[real] = text
        for place, files in parts.items():
            found.setdefault(place, []).append(replace(change, files=files))
    return found


def _place(path: Path, roots: Sequence[Path]) -> Path:
    repository = repository_of(path.parent)
    if repository is not None:
        return repository.top.resolve()
    return next((root.resolve() for root in roots if path.is_relative_to(root.resolve())), path.parent)


def repository_of(folder: Path) -> Repository | None:
    """Return the repository of a folder, if it has a commit."""
    existing = next(each for each in (folder, *folder.parents) if each.is_dir())
    git_folder = local_folder(str(existing))
    found = Repository(str(existing), git_folder) if git_folder else None
    return found if found and found.succeeds("rev-parse", "--verify", "--quiet", "HEAD") else None


def make_branch(repository: Repository, name: str, changes: Sequence[FileCommit], index: Path) -> Branch:
    """Make a branch on top of HEAD. Raise InfrastructureError."""
    top = repository.top.resolve()
    commit = repository.git("rev-parse", "HEAD").strip()
    for change in changes:
        inside = {path.relative_to(top): text for path, text in change.files.items()}
        commit = _commit(repository, commit, change, inside, index)
    free = _free_name(repository, name, commit)
    if not repository.succeeds("rev-parse", "--verify", "--quiet", f"refs/heads/{free}"):
        repository.git("update-ref", f"refs/heads/{free}", commit)
    return Branch(top, free)


def _commit(
    repository: Repository, parent: str, change: FileCommit, files: Mapping[Path, bytes | None], index: Path
) -> str:
    """Return a new commit with changed files. The index is a file of ours."""

    def git(*words: str, data: bytes = b"") -> str:
        command = (
            "env",
            f"GIT_INDEX_FILE={index}",
            *_person(repository),
            *GIT[1:],
            f"--git-dir={repository.folder}",
            *words,
        )
        done = subprocess.run(command, input=data, env=clean_environment(), capture_output=True, check=False)
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise InfrastructureError(f"{repository.address}: no branch can be made: git {words[0]}: {said}")
        return done.stdout.decode().strip()

    git("read-tree", parent)
    lines = []
    for path, text in files.items():
        if text is None:
            lines.append(f"0 {'0' * 40}\t{path}")
        else:
            lines.append(f"100644 {git('hash-object', '-w', '--stdin', data=text)}\t{path}")
    git("update-index", "--index-info", data="".join(f"{line}\n" for line in lines).encode())
    message = f"{change.subject}\n\n{change.body}\n"
    return git("commit-tree", "-p", parent, "-F", "-", git("write-tree"), data=message.encode())


def _person(repository: Repository) -> Iterable[str]:
    return () if repository.succeeds("var", "GIT_COMMITTER_IDENT") else _DEFAULT_PERSON


def _free_name(repository: Repository, name: str, commit: str) -> str:
    """Return the name of a branch that does not exist, or that has the same files as the commit already."""
    number = 1
    while True:
        free = name if number == 1 else f"{name}-{number}"
        if not repository.succeeds("rev-parse", "--verify", "--quiet", f"refs/heads/{free}"):
            return free
        if repository.succeeds("diff", "--quiet", f"refs/heads/{free}", commit):
            return free
        number += 1


def patch_lines(place: Path, changes: Iterable[FileCommit]) -> Iterator[str]:
    """Yield all changes of files below a folder as one patch for ``git apply`` there."""
    last: dict[Path, bytes | None] = {}
    for change in changes:
        last |= change.files
    for path, text in last.items():
        name = path.relative_to(place).as_posix()
        before = path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else None
        if text is None and before is None:
            continue
        after = "" if text is None else text.decode("utf-8", "surrogateescape")
        diff = patch(name, before, after)
        yield diff.replace(f"+++ b/{name}", "+++ /dev/null", 1) if text is None else diff
