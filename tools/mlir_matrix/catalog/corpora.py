"""List the members of corpora: the files of a folder that others wrote, or names in a list.

The name of a file may have any characters. Its member has a name that identifiers can hold, made from the path below the
corpus. A file that cannot be a program stays a member, with the reason.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlir_matrix.base.digest import digest_bytes
from mlir_matrix.base.names import MEMBER, PatternError, alternatives, did_you_mean, printable
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.base import Corpus, SourceForm, Workload
from mlir_matrix.catalog.yaml_reader import SourceError, read_text

#: The list of members that are no files of a folder.
LIST = "members.txt"
#: Between a file and the name of a test in it.
OF_FILE = "::"
#: The most members of a corpus, and bytes of one.
MOST_MEMBERS, MOST_BYTES = 100_000, 8 << 20
#: The most files that the members of a corpus read.
MOST_BESIDE = 200
#: The most characters of a member's name.
_MOST_CHARACTERS = 120
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_+.-]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Members:
    """The members of a corpus as workloads by name, and the reasons of those that cannot be run."""

    workloads: Mapping[str, Entry[Workload]]
    unusable: Mapping[str, str]
    #: Why there are none.
    why_none: str = ""


class CorpusError(Exception):
    """A corpus whose members cannot be listed; ``keys`` of its file are wrong."""

    def __init__(self, message: str, *keys: str | int) -> None:
        super().__init__(message)
        self.keys = keys


def with_data(corpus: Entry[Corpus], roots: Iterable[Path]) -> Entry[Corpus] | None:
    """Return a corpus in the first folder that has its programs: its catalog, or a checkout. None if no folder has them."""
    if corpus.document.data is None:
        return corpus
    folder = corpus.document.folder or "."
    for root in (corpus.root, *roots):
        if (root / folder).is_dir():
            return replace(corpus, root=root)
    return None


def without_data(corpus: Entry[Corpus]) -> str:
    """Return what to give for a corpus whose checkout is not given."""
    data = corpus.document.data
    assert data is not None
    return f"corpus {corpus.name} needs a checkout of {data.url} at {data.commit[:12]}: --data {corpus.name}=DIR"


def members_of(corpus: Entry[Corpus], form: Entry[SourceForm]) -> Members:
    """Return the members of a corpus. Raise CorpusError."""
    folder, patterns = corpus.document.folder, corpus.document.members or form.document.members
    if folder is not None:
        files = _walk(corpus, folder, patterns, "folder")
        tests = form.document.tests
        listed = list(_tests_in(files, tests, corpus.root) if tests else files)
        why = f"has no members: no file below '{printable(folder)}' matches {', '.join(patterns)}"
    else:
        # The tool of the form can list them only once the rest of the catalog is known.
        listed = _named(corpus)
        why = f"lists no members: give a 'folder', or make {LIST} by `matrix expect {corpus.name} --write`"
    if not listed:
        return Members(workloads={}, unusable={}, why_none=why)
    document = Workload.model_construct(
        description=corpus.document.description,
        source=corpus.document.source,
        parameters=corpus.document.parameters,
        environment=corpus.document.environment,
        numerics=corpus.document.numerics,
        golden="computed",
    )
    beside = dict(_beside(corpus))
    if len(beside) > MOST_BESIDE:
        raise CorpusError(f"names {len(beside)} files; members can have {MOST_BESIDE} beside them", "beside")
    workloads: dict[str, Entry[Workload]] = {}
    unusable: dict[str, str] = {}
    taken = set[str]()
    if len(listed) > MOST_MEMBERS:
        raise CorpusError(f"has {len(listed)} members; make several corpora, of {MOST_MEMBERS} at most", "folder")
    for member, path in listed:
        name = f"{corpus.name}{MEMBER}{_name_of(member)}"
        if name.casefold() in taken:
            name = f"{name}-{digest_bytes(member.encode(errors='surrogateescape'))[:8]}"
        taken.add(name.casefold())
        workloads[name] = Entry(
            name=name,
            document=document,
            source=corpus.source,
            root=corpus.root,
            folder=corpus.folder,
            files={form.document.gives: path},
            member=member,
            beside=beside,
        )
        if why := _why_not(path, corpus.root):
            unusable[name] = f"{printable(member)} of corpus {corpus.name} {why}"
    return Members(workloads=workloads, unusable=unusable)


def _tests_in(files: Iterable[tuple[str, Path]], expression: str, root: Path) -> Iterator[tuple[str, Path]]:
    """Yield a member for each test in some files, ``FILE::NAME``. A file that cannot be read is a member itself."""
    name_of_test = re.compile(expression, re.MULTILINE)
    for file, path in files:
        try:
            text = None if _why_not(path, root) else path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            text = None
        if text is None:
            yield file, path
            continue
        for name in dict.fromkeys(name_of_test.findall(text)):
            yield f"{file}{OF_FILE}{name}", path


def _name_of(member: str) -> str:
    """Return a name for a path or a name: dots between folders, and ``_`` for what identifiers cannot hold."""
    file, _, test = member.partition(OF_FILE)
    base, _, ending = file.rpartition(".")
    stem = base if base and "/" not in ending else file
    if test:
        stem = f"{stem}.{test}"
    parts = [_NOT_IN_NAMES.sub("_", part).strip(".") for part in re.split(r"[/.]+", stem)]
    name = ".".join(part for part in parts if part)
    if not name[:1].isalnum():
        name = f"m{name}"
    if len(name) > _MOST_CHARACTERS:
        name = f"{name[: _MOST_CHARACTERS - 9]}-{digest_bytes(member.encode(errors='surrogateescape'))[:8]}"
    return name


def _named(corpus: Entry[Corpus]) -> list[tuple[str, Path]]:
    """Return the names in the list beside a corpus, if any; the list stands for the file of each."""
    if LIST not in corpus.files:
        return []
    path = corpus.folder / LIST
    try:
        return [(name, path) for name in names_in(read_text(path, corpus.source.beside(LIST)))]
    except SourceError as error:
        raise CorpusError(f"{LIST}: {error.problem}") from None


def names_in(text: str) -> list[str]:
    """Return the names in a list of members: one a line, without comments."""
    names = dict.fromkeys(line.strip() for line in text.splitlines())
    return [name for name in names if name and not name.startswith("#")]


def _beside(corpus: Entry[Corpus]) -> Iterator[tuple[str, Path]]:
    """Return the files that members read, by their paths below the catalog."""
    for index, pattern in enumerate(corpus.document.beside):
        parts = pattern.split("/")
        fixed = next((number for number, part in enumerate(parts) if "*" in part or "?" in part), len(parts) - 1)
        folder = "/".join(parts[:fixed]) or "."
        for _, path in _walk(corpus, folder, ["/".join(parts[fixed:])], "beside", index):
            if why := _why_not(path, corpus.root):
                raise CorpusError(f"{printable(path.name)} {why}", "beside", index)
            yield path.relative_to(corpus.root).as_posix(), path


def _walk(corpus: Entry[Corpus], folder: str, patterns: Sequence[str], *keys: str | int) -> Iterator[tuple[str, Path]]:
    """Return the files below a folder that match patterns, sorted by path; ``keys`` name the folder in the corpus' file."""
    parts = Path(folder).parts
    if Path(folder).is_absolute() or ".." in parts:
        raise CorpusError(f"'{printable(folder)}' leads out of the catalog; give a folder below it", *keys)
    top = corpus.root.joinpath(*parts)
    real = os.path.realpath(corpus.root)
    if not top.is_dir():
        raise CorpusError(f"there is no folder '{printable(folder)}' in {corpus.root}", *keys)
    if os.path.commonpath((os.path.realpath(top), real)) != real:
        raise CorpusError(f"'{printable(folder)}' is a link that leaves the catalog; put the files here", *keys)
    try:
        matches = _matcher(patterns)
    except PatternError as error:
        raise CorpusError(str(error), "members") from None

    def fail(error: OSError) -> None:
        below = os.path.relpath(error.filename, corpus.root)
        raise CorpusError(f"folder '{printable(below)}' cannot be read: {error.strerror}", *keys)

    for place, folders, files in os.walk(top, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = os.path.relpath(place, top)
        for file in sorted(files):
            path = file if below == "." else f"{below}/{file}"
            if matches(path):
                yield path, Path(place, file)


def _matcher(patterns: Sequence[str]) -> Callable[[str], object]:
    expanded = [each for pattern in patterns for each in alternatives(pattern)]
    return re.compile("|".join(map(_path_expression, expanded))).fullmatch


def _path_expression(pattern: str) -> str:
    """Return a regular expression for a glob over paths: ``**/`` stands for any folders, also none."""
    found = ""
    for part in re.split(r"(\*\*/|\*|\?)", pattern):
        found += {"**/": "(?:[^/]+/)*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
    return f"(?:{found})"


def _why_not(path: Path, root: Path) -> str:
    """Return why a file can be no program; empty where it can."""
    if _SURROGATE.search(str(path)):
        return "has a name that is not UTF-8"
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            real, inside = os.path.realpath(path, strict=True), os.path.realpath(root)
            if os.path.commonpath((real, inside)) != inside:
                return "is a symbolic link that leaves the catalog"
            found = os.stat(real)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file"
    if not os.access(path, os.R_OK):
        return "cannot be read: Permission denied"
    return "" if found.st_size <= MOST_BYTES else f"has {found.st_size} bytes; a program can have {MOST_BYTES}"


def with_program(workload: Entry[Workload], form: Entry[SourceForm]) -> Entry[Workload]:
    """Return a workload whose program is a file of its folder as frameworks know it. Raise CorpusError."""
    own = {name: path for name, path in workload.files.items() if name != form.document.gives}
    named = workload.document.program
    if named is not None and named not in workload.files:
        raise CorpusError(f"there is no file '{named}' in this folder{did_you_mean(named, workload.files)}", "program")
    matches = _matcher(form.document.members)
    found = [named] if named is not None else [name for name in own if matches(name)]
    if len(found) != 1:
        which = (
            f"{len(found)} files can be the program: {', '.join(sorted(found))}" if found else "no file is a program"
        )
        raise CorpusError(f"{which}; name it by 'program'", "source")
    if why := _why_not(workload.files[found[0]], workload.root):
        raise CorpusError(f"{found[0]} {why}", "source")
    return replace(workload, files={form.document.gives: workload.files[found[0]]}, member=found[0])
