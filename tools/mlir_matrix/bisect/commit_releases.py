"""Make up releases of a component that are built from commits of its repository."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.names import check_known
from mlir_matrix.bisect.commits import SHORT
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.toolchains import Build, Component, Release
from mlir_matrix.catalog.pins import release_of
from mlir_matrix.catalog.releases import nearest_release, number
from mlir_matrix.environments.package import Provider, provider_of
from mlir_matrix.environments.resolve import ResolvedEnvironment, resolve
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.source import command_lines as commands
from mlir_matrix.environments.source.package import COMMIT_MARK, SourceBuild
from mlir_matrix.environments.source.repository import Repository, history_folder, mirror_command

#: Seconds for each command of a build, where the component's file has no limit.
_LIMIT_S = 4 * 60 * 60
_COMMIT = re.compile("[0-9a-f]{7,40}")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
#: Tags of releases, where the component's file has none.
_TAGS = ("[0-9]*", "v[0-9]*", "release-[0-9]*", "release/[0-9]*")


@dataclass(frozen=True, kw_only=True)
class CommitSource:
    """What commits of a component are built from, and how."""

    component: str
    build: Build
    #: The operator's own command builds it.
    is_own: bool = False

    @property
    def repository(self) -> str:
        """Return the address of a repository, or the folder of a clone."""
        return self.build.repository


def find_source(
    catalog: Catalog, component: str, *, repo: str = "", build: str = "", limit_s: int | None = None
) -> CommitSource:
    """Return how commits of a component are built: by its file, with ``--repo`` and ``--build``. Raise UsageError."""
    check_known("component", [component], catalog.components, "--component: ")
    entry = catalog.components[component]
    found = entry.document.build or (Build(repository=repo) if repo else None)
    if found is None:
        raise UsageError(
            f"{component} has no 'build' in {entry.source.file}; name its repository, and a command if it is not built by "
            "CMake: --repo DIR --build 'make install PREFIX=$PREFIX'"
        )
    where = repo or found.repository
    if repo.startswith(("/", ".", "~")) and not os.path.isdir(os.path.expanduser(repo)):
        raise UsageError(f"--repo {repo}: there is no such folder")
    # In the component's file, such a path is relative to the catalog; in an option, to the working folder.
    root = entry.root if not repo else None
    if root and where.startswith(("./", "../")):
        where = os.path.normpath(root / where)
    elif os.path.isdir(os.path.expanduser(where)):
        where = os.path.abspath(os.path.expanduser(where))
    if root and os.path.isdir(where):
        # A clone's folder is not used directly, because its settings name programs that git would run.
        where = f"file://{where}"
    changes = {"repository": where, "timeout": limit_s or found.timeout or _LIMIT_S}
    changes |= {"command": build, "folder": "."} if build else {}
    return CommitSource(component=component, build=found.model_copy(update=changes), is_own=bool(build))


def with_commits(
    session: Session, source: CommitSource, repository: Repository, commits: Sequence[str]
) -> tuple[Session, list[str]]:
    """Return the session with a release for each commit (full names), and the names of these releases.

    A release of the component's file that is built from a commit serves for that. Raise InfrastructureError.
    """
    entry = session.catalog.components[source.component]
    known = {
        each.commit: each.release
        for each in entry.document.releases
        if each.commit and provider_of(entry.document, each) is Provider.SOURCE
    }
    made = {each: _release(entry, repository, each) for each in dict.fromkeys(commits) if each not in known}
    known |= {commit: release.release for commit, release in made.items()}
    # Before the others: the newest of these is the default, and what a short name means.
    releases = (*made.values(), *entry.document.releases)
    return _with_releases(session, entry, source, releases), [known[each] for each in commits]


def _with_releases(
    session: Session, entry: Entry[Component], source: CommitSource, releases: tuple[Release, ...]
) -> Session:
    document = entry.document.model_copy(update={"releases": releases, "build": source.build})
    components = {**session.catalog.components, entry.name: replace(entry, document=document)}
    catalog = replace(session.catalog, components=components)
    permissions = replace(session.permissions, own=source.component if source.is_own else "")
    return replace(session.with_catalog(catalog), permissions=permissions)


def _release(entry: Entry[Component], repository: Repository, commit: str) -> Release:
    """Return the release that a commit is: its number is that of the nearest tag before it, else of the newest release."""
    tag = repository.tag_before(commit, _patterns(entry.document))
    return _made_up(entry.document, _version(entry.document, tag), commit)


def _version(component: Component, tag: str) -> str:
    """Return the number in a tag, else that of the newest release, with three parts or more."""
    found = _NUMBER.search(tag)
    given = number(found[0] if found else component.releases[-1].release)
    return ".".join(map(str, (*given, 0, 0)[: max(3, len(given))]))


def _made_up(component: Component, version: str, commit: str) -> Release:
    # Programs of neighbouring releases carry the same.
    others = {each.release: each for each in component.releases if not each.bindings}
    near = nearest_release(others, version)
    return Release.model_construct(
        release=f"{version}{COMMIT_MARK}{commit[:SHORT]}",
        provider=Provider.SOURCE.value,
        commit=commit,
        durability="rolling",
        carries=others[near].carries if near else (),
        programs=("bin",),
    )


def _patterns(component: Component) -> list[str]:
    """Return patterns of release tags: as the component's releases have them, for example ``llvmorg-18.1.8``."""
    tags = [each.commit for each in component.releases if each.commit and not _COMMIT.fullmatch(each.commit)]
    starts = dict.fromkeys(tag[: found.start()] for tag in tags if (found := _NUMBER.search(tag)))
    return [f"{start}[0-9]*" for start in starts] or list(_TAGS)


def plan_of_commands(session: Session, source: CommitSource, good: str, bad: str) -> Iterator[str]:
    """Yield, for a shell, the commands that list the commits between two ends and build any of them; run none.

    Raise InfrastructureError if this machine lacks what the build needs.
    """
    entry = session.catalog.components[source.component]
    history = history_folder(source.repository, session.home.cache)
    release = _made_up(entry.document, _version(entry.document, bad), commands.ANY_COMMIT)
    planned = _with_releases(session, entry, source, (release, *entry.document.releases))
    _, build = built_environment(planned, source.component, release.release)
    places = commands.Places(session.home.packages, session.home.cache, build)
    yield f"# {source.component}: commits of {source.repository} from {good} to {bad}"
    if not history.is_dir():
        yield from commands.shown(iter([mirror_command(source.repository, history)]))
    yield from commands.shown(iter([("git", f"--git-dir={history}", "rev-list", "--topo-order", f"{good}..{bad}")]))
    yield "# then for each commit that is asked:"
    yield "commit=…  # all of its 40 digits"
    yield from commands.shown(commands.checkout_commands(places))
    yield from commands.shown(commands.build_commands(places))
    yield f"# {places.made} is kept, by the digits of its commit and of all options"


def built_environment(session: Session, component: str, release: str) -> tuple[ResolvedEnvironment, SourceBuild]:
    """Return an environment of only a release that is built from source, and the build. Raise InfrastructureError."""
    entry = session.catalog.components[component]
    found = resolve(
        component,
        releases=[(entry, release_of(entry, release))],
        lock_folders=session.lock_folders,
        needs=session.with_entries(session.pins.needs("", [component])),
        permissions=session.permissions,
    )
    if not isinstance(found, ResolvedEnvironment):
        raise InfrastructureError(found.reason)
    (build,) = found.prefixes
    assert isinstance(build, SourceBuild)
    return found, build
