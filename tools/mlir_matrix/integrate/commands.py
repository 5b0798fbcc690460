"""``matrix integrate``: move a pin to the furthest commit at which everything expected holds."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import sole_user, write_file, write_text
from mlir_matrix.base.names import check_known
from mlir_matrix.base.paths import find_home, launcher
from mlir_matrix.base.text import catalog_options, counted
from mlir_matrix.bisect.commit_releases import CommitSource, find_source, plan_of_commands
from mlir_matrix.bisect.commits import SHORT, Commits, fork, list_commits
from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli import options
from mlir_matrix.cli.output import note, show, warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.source.repository import Repository, open_repository
from mlir_matrix.environments.source.store import BuildStore
from mlir_matrix.execute.progress import shown
from mlir_matrix.integrate.branch import by_place, make_branch, patch_lines, repository_of
from mlir_matrix.integrate.carried import Patch, patches_of_branch, read_patches
from mlir_matrix.integrate.changes import (
    FileCommit,
    PinnedCommit,
    carried_files,
    cost_files,
    pin_commit,
    together,
    unneeded_files,
)
from mlir_matrix.integrate.coupled import CoupledPins
from mlir_matrix.integrate.document import document_of, unmoved_document
from mlir_matrix.integrate.documents import IntegrationBreak, IntegrationDocument, UpstreamCommit
from mlir_matrix.integrate.integration import Integration
from mlir_matrix.integrate.patched_trees import PatchedTrees
from mlir_matrix.integrate.report import issue, lines, pull_request
from mlir_matrix.integrate.reproducers import reduce_breaks
from mlir_matrix.integrate.trials import Trials, Tried
from mlir_matrix.integrate.upstream import UpstreamChanges
from mlir_matrix.integrate.walk import by_halves, line_of
from mlir_matrix.plan.request import Limits
from mlir_matrix.results.run_folder import RunFolder
from mlir_matrix.toolchain.roll import acceptance

if TYPE_CHECKING:
    from mlir_matrix.catalog.catalog import Entry
    from mlir_matrix.catalog.models.toolchains import Component
    from mlir_matrix.environments.session import Session


@dataclass(frozen=True, kw_only=True)
class IntegrateOptions:
    """How to walk, as the command line says."""

    component: str
    suite: str
    repo: str
    start: str
    end: str
    patches: str
    build: str
    build_timeout: int | None
    first_parent: bool
    goal: tuple[str, str] | None
    reverts: bool
    reduce: bool
    prefetch: bool
    store: str | None
    dry_run: bool
    check: bool
    budget: float


@verb(
    "integrate",
    "matrix integrate llvm --repo ~/llvm-project --suite nightly",
    "matrix integrate llvm --to main --patches patches --reverts",
    "matrix integrate acme-cc --catalog acme --budget 8h --check",
)
@click.argument("component")
@click.option(
    "--suite",
    default="",
    metavar="SUITE",
    callback=lambda _context, _parameter, text: text or options.suite_of_project(DEFAULT_SUITE),
    help="Run the tests of SUITE. Default: the suite of the project, else smoke.",
)
@click.option(
    "--repo", default="", metavar="DIR|URL", help="The repository of the component. Default: that of its 'build'."
)
@click.option(
    "--from", "start", default="", metavar="REV", help="Begin at this commit. Default: that of the pinned release."
)
@click.option("--to", "end", default="HEAD", show_default=True, metavar="REV", help="The newest commit to take.")
@click.option(
    "--patches",
    default="",
    metavar="DIR|REV",
    help="Carried patches: a folder with *.patch, or a branch, whose commits above the merge base they are. Default: the folder "
    "that 'patches' of the component's 'build' names.",
)
@click.option(
    "--build", default="", metavar="COMMAND", help="Build a commit by this command of sh, as for matrix bisect."
)
@click.option(
    "--build-timeout", type=click.IntRange(1), metavar="SECONDS", help="End a command of a build after this time."
)
@click.option(
    "--goal",
    metavar="COMPONENT>=RELEASE",
    callback=lambda _context, _parameter, text: _read_goal(text),
    help="Move no further than to the first commit that goes with this release of another component.",
)
@click.option("--first-parent", is_flag=True, help="Take a merge as one commit, without the commits that it merged.")
@click.option(
    "--reverts", is_flag=True, help="Also try the newest commit with reverts of the culprits, and carry these."
)
@click.option(
    "--reduce",
    is_flag=True,
    help="Reduce the program of a test of each break that upstream is at fault for, a minute each.",
)
@click.option(
    "--store",
    metavar="DIR|URL",
    help="Take builds from this store (matrix toolchain push), and keep new ones there if it is a folder.",
)
@click.option(
    "--prefetch",
    is_flag=True,
    help="Only build commits, those first that a walk needs first, until the time of --budget is over.",
)
@click.option("--dry-run", is_flag=True, help="Print the commands that list and build commits; run nothing.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if there is something to change.")
@options.budget("24h", "Build no further commit after this time, e.g. 90m or 8h.")
@options.limits
@options.session(options.cache, *options.releases, *options.builds)
@options.output_format("text", "json")
@options.quiet
@options.as_dataclass("how", IntegrateOptions)
def integrate_command(how: IntegrateOptions, current: Session, limits: Limits, form: str, quiet: bool) -> int:
    """Move the pin of a component to the furthest commit at which everything expected holds, with carried patches.

    From the commit of the pinned release towards the newest one, commits are built with the carried patches, and the suite runs.
    For each break on the way, the culprit is searched, and whether upstream, a carried patch or the catalog has to change. Each
    patch is upstreamed, unneeded, needed, or in conflict. What a person would have committed becomes a branch of the catalog's
    repository: the pin, the patches, expected failures that pass now, and golden costs. There are texts of a pull request and of
    issues.

    No commit is built twice, and no test runs twice on the same build: after an interruption, the same command goes on.

    Exit code: 0 the newest commit is green; 1 it is not, or with --check something would change; 2 the command or the catalog is
    wrong, or the start cannot be built; 3 the infrastructure failed.
    """
    began = time.monotonic()
    tell: Callable[[str], object] = (lambda _line: None) if quiet else note
    begin = _find_start(how, current)
    if how.dry_run:
        for line in plan_of_commands(begin.session, begin.source, begin.start, how.end):
            click.echo(line)
        return 0
    ends = _find_ends(how, begin, tell)
    if ends.first == ends.last:
        now: UpstreamCommit = {"commit": ends.last, "subject": ends.repository.subject(ends.last)}
        note(f"nothing to integrate: {how.component} is at {ends.last[:SHORT]} {now['subject']}")
        show(form, unmoved_document(how.component, now), [])
        return 0
    ground = _ground(how, ends)
    objects = current.home.cache / "builds" / f"{how.component}-patched"
    trees = PatchedTrees(ground.commits.repository, objects)
    upstream = UpstreamChanges(ground.commits, trees)
    with sole_user(objects, f"another integration of {how.component} is running"), shown(quiet=quiet) as listener:
        trials = Trials(
            session=ground.begin.session,
            source=ground.begin.source,
            trees=trees,
            names=[how.suite],
            limits=limits,
            listener=listener,
            store=BuildStore(how.store) if how.store else None,
            tell=tell,
            is_late=lambda: time.monotonic() - began > how.budget,
        )
        if how.prefetch:
            _build_ahead(trials, ground)
            return 0
        found = Integration(commits=ground.commits, upstream=upstream, trials=trials, patches=ground.patches)
        found.run(reverting=how.reverts, costs=not ground.not_proposed)
        changes = list(_changes(how, ground, found))
        document = document_of(how.component, found, changes, time.monotonic() - began)
        interruption = None
        if not how.check:
            folder = RunFolder(find_home().state / "integrate", {how.component: document["pin"]["commit"][:SHORT]}).path
            if how.reduce:
                interruption = reduce_breaks(how.component, found, document["breaks"], folder, limits, listener)
    document["not_proposed"] = ground.not_proposed
    if not how.check:
        _write(how, ground, document, changes, folder)
    show(form, document, lines(document), markup=True)
    if interruption is not None:
        raise interruption
    if how.check:
        return int(bool(changes) or found.target != ground.commits.good)
    return int(found.target != ground.commits.bad)


def _build_ahead(trials: Trials, ground: _Ground) -> None:
    """Build commits with the carried patches until the time is over. Raise InfrastructureError."""
    built = 0
    points = list(by_halves(list(line_of(ground.commits))))
    for number, point in enumerate(points):
        if trials.is_late():
            click.echo(f"the time is over; {counted(len(points) - number, 'commit')} left")
            break
        built += trials.build(ground.commits.ids[point], ground.patches)
    click.echo(f"{built} of {counted(len(points), 'commit')} built")


@dataclass(frozen=True, kw_only=True)
class _Start:
    """What is walked, before its repository is read."""

    session: Session
    source: CommitSource
    pinned: str
    start: str


@dataclass(frozen=True, kw_only=True)
class _Ends:
    """From where to where to walk."""

    begin: _Start
    repository: Repository
    first: str
    last: str


@dataclass(frozen=True, kw_only=True)
class _Ground:
    """Where the walk is: the commits, and what is carried."""

    begin: _Start
    commits: Commits
    patches: Sequence[Patch]
    #: The folder of the patches; None for those of a branch.
    folder: Path | None
    #: Why no branch can be made; empty if one can.
    not_proposed: str


def _find_start(how: IntegrateOptions, current: Session) -> _Start:
    """Return where to begin, and how commits are built. Raise UsageError."""
    if how.reduce and how.check:
        raise UsageError("--reduce writes reports, and --check writes nothing; leave out one of them")
    check_known("component", [how.component], current.catalog.components)
    check_known("suite", [how.suite], current.catalog.suites)
    # As in a bisection, a folder that is pinned here takes no part.
    session = current.without_pin(how.component)
    pinned = session.catalog.default_pins("")[how.component]
    entry = session.catalog.components[how.component]
    release = next(each for each in entry.document.releases if each.release == pinned)
    source = find_source(session.catalog, how.component, repo=how.repo, build=how.build, limit_s=how.build_timeout)
    start = how.start or release.commit
    if not start:
        raise UsageError(f"{how.component} {pinned} names no commit; say where to begin: --from REV")
    return _Start(session=session, source=source, pinned=pinned, start=start)


def _find_ends(how: IntegrateOptions, begin: _Start, tell: Callable[[str], object]) -> _Ends:
    """Return the first commit and the newest one to take. Raise UsageError."""
    session, source, start = begin.session, begin.source, begin.start
    repository = open_repository(source.repository, session.home.cache, [start, how.end], tell)
    first, last = repository.commit(start), repository.commit(how.end)
    base = fork(repository, first, last)
    if base and base not in (first, last):
        note(f"{start} is not an ancestor of {how.end}: the walk begins at their fork, {base[:SHORT]}")
        first = base
    if how.goal and first != last:
        last = _goal(how.goal, session, CoupledPins(repository, source), first, last)
    return _Ends(begin=begin, repository=repository, first=first, last=last)


def _ground(how: IntegrateOptions, ends: _Ends) -> _Ground:
    """Return the commits between the ends, and the carried patches. Raise UsageError."""
    entry = ends.begin.session.catalog.components[how.component]
    commits = list_commits(
        ends.repository, ends.first, ends.last, first_parent=how.first_parent, options=("--from", "--to")
    )
    warn(*commits.warnings)
    patches, folder = _carried(how, entry.root, ends)
    return _Ground(
        begin=ends.begin,
        commits=commits,
        patches=patches,
        folder=folder,
        not_proposed=_why_not_proposed(how, entry, patches, folder),
    )


def _why_not_proposed(
    how: IntegrateOptions, entry: Entry[Component], patches: Sequence[Patch], folder: Path | None
) -> str:
    """Return why the catalog cannot name what is tried; empty if it can."""
    if entry.document.build is None or how.build:
        return f"commits are built as the command line says; add a 'build' to {entry.source.file}"
    if patches and folder is None:
        return "patches are commits of a branch; a catalog has them as files, in the folder that its 'build' names"
    if folder is not None and not folder.is_relative_to(entry.root.resolve()):
        return f"{folder} is outside of the catalog {entry.root}"
    return ""


def _read_goal(text: str | None) -> tuple[str, str] | None:
    """Return component and release of ``llvm>=22``. Raise UsageError."""
    if text is None:
        return None
    component, mark, least = text.replace(" ", "").partition(">=")
    if not (component and mark and least[:1].isdigit()):
        raise UsageError(f"--goal {text}: expected a component and its least release, e.g. 'llvm>=22'")
    return component, least


def _goal(goal: tuple[str, str], session: Session, coupled: CoupledPins, first: str, last: str) -> str:
    """Return the first commit between two that goes with a release of another component. Raise UsageError."""
    component, least = goal
    check_known("component that goes with it", [component], coupled.source.build.pins, "--goal: ")
    line = list_commits(coupled.repository, first, last, first_parent=True).ids
    return line[coupled.first_with(session, line, component, least)]


def _carried(how: IntegrateOptions, root: Path, ends: _Ends) -> tuple[Sequence[Patch], Path | None]:
    """Return the carried patches, and their folder if they are files."""
    repository, named = ends.repository, ends.begin.source.build.patches
    folder = Path(how.patches).resolve()
    if how.patches and not folder.is_dir() and repository.succeeds("rev-parse", "--verify", "--quiet", how.patches):
        return patches_of_branch(repository, how.patches, ends.first, ends.last), None
    if how.patches:
        return read_patches(folder), folder
    if named is None:
        return [], None
    folder = (root / named).resolve()
    return read_patches(folder), folder


def _changes(how: IntegrateOptions, ground: _Ground, found: Integration) -> Iterator[FileCommit]:
    """Yield what to commit for the commit to pin: what moves the pin, each patch that nothing needs, and golden costs.

    Nothing if the catalog cannot name what was tried.
    """
    if ground.not_proposed:
        return
    tried = found.at_target
    parts = list(_parts(how, ground, found, tried))
    to = ground.commits.ids[found.target][:SHORT]
    if found.target != ground.commits.good:
        yield together(f"Move {how.component} to {to}", parts)
    else:
        yield from parts
    if ground.folder is not None:
        absent = tried.applied.left_out
        unneeded = [each.patch for each in found.verdicts if each.state == "unneeded" and each.patch.name not in absent]
        commit = ground.commits.ids[found.target]
        carried = [*found.carried_reverts, *ground.patches]
        apply = partial(found.upstream.trees.apply, commit)
        yield from unneeded_files(ground.folder, unneeded, carried, apply)
    if found.costs:
        yield cost_files(found.costs)


def _parts(how: IntegrateOptions, ground: _Ground, found: Integration, tried: Tried) -> Iterator[FileCommit]:
    """Yield what holds only together: the pin, patches, names of passes, and expectations; ``tried`` at the commit to pin."""
    catalog, commits = ground.begin.session.catalog, ground.commits
    to = commits.ids[found.target]
    if found.target != commits.good:
        pinned = PinnedCommit(
            component=how.component,
            release=tried.release,
            commit=to,
            subject=commits.subjects[found.target],
            replaces=ground.begin.pinned,
            others=tried.pins,
        )
        yield pin_commit(catalog, pinned, _folder_to_name(how, ground))
    if ground.folder is not None:
        yield from carried_files(ground.folder, found.verdicts, tried.applied)
    for culprit, rename, _ in found.renames:
        if found.walk.contains(found.target, [culprit]):
            yield FileCommit(
                subject=f"Follow a new name in step {rename.step}",
                body=f"{rename.old} is {rename.new} since {commits.ids[culprit][:SHORT]} {commits.subjects[culprit]}",
                files={rename.path: rename.text.encode()},
            )
    if tried.fixed:
        change = acceptance(ground.begin.session, how.suite, tried.fixed.values())
        if change and change.text != change.before:
            tests = "\n".join(sorted(tried.fixed))
            yield FileCommit(
                subject="Expect no failure of tests that pass now",
                body=tests,
                files={change.path: change.text.encode()},
            )


def _folder_to_name(how: IntegrateOptions, ground: _Ground) -> str:
    """Return the folder of patches, relative to the catalog, if the component's file names another one or none."""
    entry = ground.begin.session.catalog.components[how.component]
    build = entry.document.build
    if ground.folder is None or build is None:
        return ""
    folder = ground.folder.relative_to(entry.root.resolve()).as_posix()
    return "" if folder == build.patches else folder


def _write(
    how: IntegrateOptions,
    ground: _Ground,
    document: IntegrationDocument,
    changes: Sequence[FileCommit],
    folder: Path,
) -> None:
    """Write the branch, the patch, and the texts into a folder; note them in the document. Raise InfrastructureError."""
    short = document["pin"]["commit"][:SHORT]
    document["folder"] = str(folder)
    for number, found in enumerate(document["breaks"], 1):
        path = folder / f"issue-{number}.md"
        found["report"] = str(path)
        repeat = [shlex.join(words) for words in _repeat(how, ground, found)]
        write_text(path, "".join(f"{line}\n" for line in issue(document, found, repeat)))
    write_text(folder / "pull-request.md", "".join(f"{line}\n" for line in pull_request(document)))
    for number, (place, ours) in enumerate(by_place(changes, ground.begin.session.catalog.roots).items(), 1):
        name = "changes.patch" if number == 1 else f"changes-{number}.patch"
        write_file(folder / name, "".join(patch_lines(place, ours)).encode("utf-8", "surrogateescape"))
        repository = repository_of(place)
        if repository is None:
            document["patches_to_apply"].append({"folder": str(place), "patch": name})
            continue
        branch = make_branch(repository, f"integrate/{how.component}-{short}", ours, folder / "index")
        (folder / "index").unlink(missing_ok=True)
        document["branches"].append({"name": branch.name, "repository": str(branch.repository), "commits": len(ours)})
    write_text(folder / "integration.json", json.dumps(document, indent=1))


def _repeat(how: IntegrateOptions, ground: _Ground, found: IntegrationBreak) -> Iterator[list[str]]:
    """Yield the commands that show a break: of its commit, of its build, and the one that reduces its program."""
    yield ["git", "-C", str(ground.commits.repository.top), "show", found["culprits"][0]["commit"]]
    if found["tests"]:
        where = [*catalog_options(ground.begin.session.catalog.roots[1:]), "--pin", f"{how.component}={found['pin']}"]
        yield [launcher(), "run", found["tests"][0], *where]
        if not found["trouble"]:
            yield [launcher(), "reduce", found["tests"][0], *where]
