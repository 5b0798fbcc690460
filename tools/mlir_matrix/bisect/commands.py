"""``matrix bisect``: find what changed the result of tests: a release, a commit, or pins."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from mlir_matrix.base.errors import InfrastructureError, MatrixError, UsageError
from mlir_matrix.base.files import is_held
from mlir_matrix.base.layout import print_lines
from mlir_matrix.base.names import check_known
from mlir_matrix.bisect.axes import Ground, of_commits, of_pins, of_releases
from mlir_matrix.bisect.bisection import Bisection
from mlir_matrix.bisect.commit_releases import find_source, plan_of_commands
from mlir_matrix.bisect.commits import SHORT as SHORT_COMMIT
from mlir_matrix.bisect.commits import fork, list_commits
from mlir_matrix.bisect.driver import SHORT, Find
from mlir_matrix.bisect.log import LAST, Past, bisections, read_log
from mlir_matrix.bisect.pin_driver import MovedPins, used_components
from mlir_matrix.bisect.releases import check_names, default_component, make_axis, tests_on
from mlir_matrix.bisect.report.document import Reported, bisection_document
from mlir_matrix.bisect.run import BisectionRun, BisectOptions
from mlir_matrix.bisect.search.pin_sets import moved_pins
from mlir_matrix.bisect.signature import BY, By
from mlir_matrix.bisect.steps.run import Over, bisect_steps
from mlir_matrix.catalog.pins import read_pins
from mlir_matrix.catalog.releases import find
from mlir_matrix.cli import options
from mlir_matrix.cli.output import note, show, warn
from mlir_matrix.cli.verbs import ARGUMENTS, Verb, call_verb, option_words
from mlir_matrix.environments.source.repository import Repository, open_repository

if TYPE_CHECKING:
    from mlir_matrix.environments.session import Session
_FLAGS = ("--resume", "--undo", "--log")


class Continued(Verb):
    """A verb that adds the arguments of the bisection that it continues to those of the command line."""

    def __init__(self, *arguments: Any, params: list[click.Parameter], **more: Any) -> None:
        own = [
            click.Option(["--resume"], is_flag=True, expose_value=False, help="Continue the last bisection."),
            click.Option(
                ["--undo"], is_flag=True, expose_value=False, help="With --resume: forget the last observation."
            ),
            click.Option(
                ["--replay"],
                type=click.Path(),
                metavar="LOG",
                expose_value=False,
                help="Begin the bisection of LOG again, with what was observed in it.",
            ),
            click.Option(["--log"], is_flag=True, expose_value=False, help="Show what the last bisection observed."),
        ]
        super().__init__(*arguments, params=[*params, *own], **more)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            # A shell completes a word.
            return super().parse_args(ctx, args)
        given = {flag for flag in _FLAGS if flag in args}
        args = [word for word in args if word not in given]
        replayed = _take_value(args, "--replay")
        if "--log" in given:
            show("text", None, _shown(_last()))
            ctx.exit(0)
        ctx.obj = _past(given, replayed)
        if isinstance(ctx.obj, Past):
            args = [*ctx.obj.arguments, *args]
            if os.path.isdir(ctx.obj.folder):
                # Folders in its arguments are relative to its working folder.
                os.chdir(ctx.obj.folder)
        return super().parse_args(ctx, args)


def _past(given: Collection[str], replayed: str) -> Past | None:
    """Return the bisection that these options continue. Raise UsageError."""
    if "--undo" in given and "--resume" not in given:
        raise UsageError("--undo forgets the last observation of a bisection; give it with --resume")
    if "--resume" not in given:
        return read_log(Path(replayed).absolute()) if replayed else None
    if replayed:
        raise UsageError("--resume continues the last bisection and --replay another one; give one of them")
    path = _last()
    if is_held(path.parent):
        raise UsageError(f"the last bisection is still running; its log is {path}")
    return replace(read_log(path), resumed=True, undo="--undo" in given)


def _take_value(args: list[str], option: str) -> str:
    """Remove an option with its value from arguments; return the value."""
    for index, word in enumerate(args):
        if word.startswith(f"{option}="):
            del args[index]
            return word.partition("=")[2]
        if word == option and index + 1 < len(args):
            value = args[index + 1]
            del args[index : index + 2]
            return value
    return ""


def _last() -> Path:
    """Return the log of the last bisection. Raise UsageError."""
    # A bisection that was killed at its start has an empty log.
    logs = sorted((log for log in bisections().glob(f"*/{LAST}") if _modified(log)), key=_modified)
    if not logs:
        raise UsageError(f"there is no bisection to continue in {bisections()}")
    return logs[-1]


def _modified(log: Path) -> int:
    """Return the time of the last event; 0 if there is none, or if another process has removed the log."""
    with suppress(FileNotFoundError):
        found = log.stat()
        return found.st_mtime_ns if found.st_size else 0
    return 0


def _shown(path: Path) -> Iterator[str]:
    """Return the observations of a log, one line each."""
    past = read_log(path)
    yield str(path)
    for each in past.observed:
        result = each["result"]
        judged = " (judged by a person)" if each["judged"] else ""
        yield f"{result['outcome']:<14} {result['id']}  {result['reason'][:120]}{judged}".rstrip()
    for name in sorted(past.skipped):
        yield f"{'skipped':<14} {name}"


#: A release, known or unknown, and not a commit.
_NUMBER = re.compile(r"\d{1,4}(\.\d+)*")


@dataclass(frozen=True, kw_only=True)
class BisectEnds:
    """What is bisected, and from where to where."""

    good: str
    bad: str
    component: str | None
    bindings: bool
    #: Of commits: the repository, the command that builds one, and the rest.
    repo: str
    build: str
    build_timeout: int | None
    first_parent: bool
    paths: tuple[str, ...]
    dry_run: bool

    @property
    def of_commits(self) -> str:
        """The first option that applies only to commits; empty if none is given."""
        given = {
            "--build-timeout": self.build_timeout,
            "--first-parent": self.first_parent,
            "--path": self.paths,
            "--dry-run": self.dry_run,
        }
        return next((option for option, value in given.items() if value), "")


#: Options that say nothing about one version.
_NOT_OVER = {each.name for each in (*fields(BisectEnds), *fields(BisectOptions))} - {"limits", "quiet"}


@click.command(
    "bisect",
    cls=Continued,
    examples=(
        "matrix bisect mlir/math-poly/x86_64/asin",
        "matrix bisect 'mlir/math-expand/x86_64/*' --good 16 --bad 21",
        "matrix bisect pytorch/iree-llvm-cpu/iree-local/mlp --component iree --find fixed",
        "matrix bisect mlir/math-expand/x86_64/ceil --repo ~/llvm-project --good llvmorg-21-init --bad main",
        "matrix bisect jax/iree-llvm-cpu/iree-local/mlp --good iree=3.9,jax=0.9 --bad iree=3.13,jax=0.10",
        "matrix bisect pytorch/linalg-loops/x86_64/gelu_tanh --over steps",
        "matrix bisect mlir/linalg-vectorized/x86_64-v3/matmul --by instructions --good 22 --bad 21",
        "matrix bisect --resume",
    ),
)
@options.named_tests
@click.option(
    "--component",
    metavar="COMPONENT",
    help="Bisect the releases of COMPONENT. Default: the compiler of the tests' steps.",
)
@click.option(
    "--good",
    default="",
    metavar="END",
    help="One end: a release, a commit, or pins as in llvm=18,iree=3.9. The tests pass there.",
)
@click.option("--bad", default="", metavar="END", help="The other end. They fail there.")
@click.option(
    "--find",
    type=click.Choice(get_args(Find)),
    default="change",
    show_default=True,
    help="Look for any change, for passes that become failures, or for failures that become passes.",
)
@click.option(
    "--by",
    default=BY[0],
    show_default=True,
    callback=lambda _context, _parameter, text: By.parse(text),
    metavar="WHAT",
    help=f"Tell results apart by {', '.join(BY[:-1])} or {BY[-1]}, by ir:STEP, by a metric, e.g. 'max_ulp<=4', or by an exact "
    "cost, e.g. instructions.",
)
@click.option(
    "--over",
    type=click.Choice(get_args(Over)),
    help="In one version: find the step of a failing test that is wrong, and its pass.",
)
@click.option(
    "--reduce", "reducing", is_flag=True, help="Then reduce the program of each test that changed: matrix reduce."
)
@click.option("--installed", is_flag=True, help="With --over: fetch nothing; use what is installed.")
@click.option("--bindings", is_flag=True, help="Also use releases that come as Python bindings.")
@click.option("--repo", default="", metavar="DIR|URL", help="Bisect the commits of this repository of the component.")
@click.option(
    "--build",
    default="",
    metavar="COMMAND",
    help="Build a commit by this command of sh, in its folder, unconfined; it installs to $PREFIX and may use $JOBS.",
)
@click.option(
    "--build-timeout", type=click.IntRange(1), metavar="SECONDS", help="End a command of a build after this time."
)
@click.option("--first-parent", is_flag=True, help="Take a merge as one commit, without the commits that it merged.")
@click.option(
    "--path", "paths", multiple=True, metavar="PATH", help="Commits that touch PATH are more likely. Repeatable."
)
@click.option("--dry-run", is_flag=True, help="Print the commands that list and build commits; run nothing.")
@click.option("--skip", multiple=True, metavar="POINT", help="Do not probe this release or commit. Repeatable.")
@click.option(
    "--scan/--search",
    default=None,
    help=f"Probe every point, or search for one change. Default: scan up to {SHORT} releases, search commits.",
)
@click.option(
    "--repeats",
    type=click.IntRange(0, 1000),
    metavar="N",
    help="Repeat each probe of a scan, or those of a search that confirm its answer, N times. Default: 0 and 4.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    metavar="P",
    help="End a search when the candidates have this probability.",
)
@click.option("--interactive", is_flag=True, help="Ask for the verdict of each result; implies --search.")
@options.limits
@options.session(options.cache, *options.releases, *options.builds)
@options.events
@options.output_format("text", "json", "line")
@options.quiet
@options.as_dataclass("how", BisectOptions)
@options.as_dataclass("ends", BisectEnds)
@click.pass_context
def bisect_command(
    context: click.Context,
    /,
    tests: tuple[str, ...],
    current: Session,
    how: BisectOptions,
    ends: BisectEnds,
    over: Over | None,
    reducing: bool,
    installed: bool,
    form: str,
) -> int:
    """Find what changed the result of tests: a release, a commit, or pins.

    Run the tests at each release of a component, and report every change: how the tests behave before and after, the first
    step whose IR differs, and commands that repeat it. Of many releases, or of commits, search for one change. With pins as
    ends, find the smallest set of them that makes a test bad, and then the release. Each report is also written as
    Markdown, ready for an issue, and as HTML.

    With --reduce, what a test did in the bad release is reduced to a small program.

    With --over steps, no other release is needed: other pipelines, other releases and oracles execute the IR after each step of a
    failing test. The first level that they find wrong names the step.

    Exit code: 0 each test has a known result at two points or more, or a wrong step; 3 some test has not, or cannot be reduced.
    """
    if over is not None:
        return _over_steps(context, current, tests, over, how, fetching=not installed, reducing=reducing, form=form)
    if installed or form == "line":
        raise UsageError(f"{'--installed' if installed else '--format line'} goes with --over steps")
    past = context.obj if isinstance(context.obj, Past) else None
    asked = _Asked(current, tests, how, context.meta[ARGUMENTS], past, ends)
    if past is None:
        # The report repeats a bisection anywhere, also where no project is.
        words = options.project_words(context, without=_bisected(asked))
        asked = replace(asked, arguments=[*words, *asked.arguments])
    if reducing and ("=" in ends.good + ends.bad or _component_of_commits(asked)):
        raise UsageError("--reduce needs two releases of one component, which pins can name; leave it out here")
    found = _bisect(asked)
    if ends.dry_run:
        return 0
    if form == "json":
        click.echo(json.dumps(bisection_document(found), indent=1))
    else:
        print_lines(_text(found), stderr=str(how.events) == "-")
    is_known = all(sum(point.known is not None for point in each.bisection.points) > 1 for each in found)
    if reducing:
        words = option_words(bisect_command, context.meta[ARGUMENTS], only=options.OF_RUN)
        reports = [str(each.report) for each in found if each.bisection.changes]
        is_known = _reduce(context, reports, words, form) and is_known
    return 0 if is_known else 3


def _over_steps(
    context: click.Context,
    current: Session,
    tests: Sequence[str],
    over: Over,
    how: BisectOptions,
    *,
    fetching: bool,
    reducing: bool,
    form: str,
) -> int:
    """Bisect tests over their steps. Raise UsageError for options of a bisection over releases."""
    arguments = context.meta[ARGUMENTS]
    idle = option_words(bisect_command, arguments, only=_NOT_OVER)
    if context.obj is not None or idle:
        given = idle[0] if idle else "--resume"
        raise UsageError(f"--over {over} looks at one version; leave out {given}")
    words = options.words_of_run(context, bisect_command)
    code = bisect_steps(current, tests, words, how.limits, fetching=fetching, form=form, quiet=how.quiet)
    if reducing and not _reduce(context, tests, words, form):
        return 3
    return code


def _reduce(context: click.Context, subjects: Sequence[str], words: Sequence[str], form: str) -> bool:
    """Call the verb reduce for reports or tests. Return whether none was refused; a refused one does not end the others.

    JSON has a document for each, after that of the bisection.
    """
    problems: list[MatrixError] = []
    for subject in subjects:
        if form != "json":
            click.echo()
        try:
            call_verb(context, "reduce", [subject, *words, "--format", "json" if form == "json" else "text"])
        except (UsageError, InfrastructureError) as problem:
            problems.append(problem)
    warn(*problems)
    return not problems


@dataclass(frozen=True)
class _Asked:
    """The request of the command line."""

    session: Session
    tests: Sequence[str]
    how: BisectOptions
    arguments: Sequence[str]
    past: Past | None
    ends: BisectEnds

    def run(self, ground: Ground) -> list[Reported]:
        return BisectionRun(self.session, ground, self.how, self.arguments, self.past, bisect_command).run()


def _bisect(asked: _Asked) -> list[Reported]:
    """Bisect pins, releases or commits, by what the ends name; with --dry-run, print commands and return nothing."""
    ends = asked.ends
    if "=" in ends.good + ends.bad:
        return _bisect_pins(asked)
    component = _component_of_commits(asked)
    if not component:
        return _bisect_releases(asked)
    if ends.dry_run:
        source = find_source(asked.session.catalog, component, repo=ends.repo, build=ends.build)
        show("text", None, plan_of_commands(asked.session, source, *_older_first(asked)))
        return []
    return _bisect_commits(asked, component)


def _bisected(asked: _Asked) -> set[str]:
    """Return the components whose releases or commits the bisection chooses."""
    ends = asked.ends
    if "=" in ends.good + ends.bad:
        return {pin.partition("=")[0] for pin in f"{ends.good},{ends.bad}".split(",")}
    return {ends.component or default_component(asked.session.catalog, asked.tests)}


def _bisect_releases(asked: _Asked) -> list[Reported]:
    ends = asked.ends
    (chosen,) = _bisected(asked)
    if chosen in options.pinned_by(asked.arguments):
        raise UsageError(f"--pin {chosen}=…: a bisection of {chosen} chooses its releases; use --good and --bad")
    # A pin of the project is that of other runs.
    current = asked.session.without_pin(chosen)
    asked = replace(asked, session=current)
    if option := ends.of_commits:
        raise UsageError(f"{option} is about commits; name a repository with --repo, or commits as --good and --bad")
    axis = make_axis(
        current.catalog,
        chosen,
        good=ends.good,
        bad=ends.bad,
        bindings=ends.bindings,
        fixed=asked.how.find == "fixed",
    )
    return asked.run(of_releases(current, axis, tests_on(current, asked.tests, axis)))


def _component_of_commits(asked: _Asked) -> str:
    """Return the component whose commits to bisect, if a repository is named or an end is not a release; else empty."""
    catalog, given = asked.session.catalog, asked.ends
    (chosen,) = _bisected(asked)
    check_known("component", [chosen], catalog.components, "--component: ")
    document = catalog.components[chosen].document
    releases = [each.release for each in document.releases]
    ends = [end for end in (given.good, given.bad) if end and not _NUMBER.fullmatch(end)]
    are_commits = document.build and any(find(releases, end) is None for end in ends)
    return chosen if given.repo or given.build or are_commits else ""


def _older_first(asked: _Asked) -> tuple[str, str]:
    good, bad = asked.ends.good, asked.ends.bad
    if not (good and bad):
        raise UsageError("a bisection of commits needs both ends: --good REVISION --bad REVISION")
    return (bad, good) if asked.how.find == "fixed" else (good, bad)


def _bisect_commits(asked: _Asked, component: str) -> list[Reported]:
    current, ends, fixed = asked.session, asked.ends, asked.how.find == "fixed"
    older, newer = _older_first(asked)
    check_names(asked.tests)
    source = find_source(current.catalog, component, repo=ends.repo, build=ends.build, limit_s=ends.build_timeout)
    if ends.build:
        note("--build: this command is your own, so it runs as you do, with your files and the network")
    repository = open_repository(source.repository, current.home.cache, [older, newer], note)
    older = _start(repository, older, newer)
    names = ("--bad", "--good") if fixed else ("--good", "--bad")
    commits = list_commits(repository, older, newer, first_parent=ends.first_parent, options=names)
    warn(*commits.warnings)
    return asked.run(of_commits(current, source, commits, asked.tests, fixed=fixed, paths=ends.paths))


def _start(repository: Repository, older: str, newer: str) -> str:
    """Return the older end, or the fork of both ends, because releases are often on separate branches."""
    ends = [repository.commit(each) for each in (older, newer)]
    base = fork(repository, *ends)
    if not base or base in ends:
        return older
    note(f"{older} is not an ancestor of {newer}: the search begins at their fork, {base[:SHORT_COMMIT]}")
    return base


def _bisect_pins(asked: _Asked) -> list[Reported]:
    """Find the smallest sets of pins that make tests bad, then the release of each component in them."""
    current, ends, how = asked.session, asked.ends, asked.how
    for name in ("component", "repo", "build", "bindings"):
        if getattr(ends, name):
            raise UsageError(f"--{name} does not go with pins as ends; the components are those whose pins differ")
    if how.scan is not None or how.interactive or how.by.kind == "time":
        raise UsageError("--scan, --search, --interactive and --by time do not go with pins as ends")
    if option := ends.of_commits:
        raise UsageError(f"{option} is about commits; it does not go with pins as ends")
    check_names(asked.tests)
    moved = moved_pins(current.catalog, ends.good, ends.bad)
    good = read_pins(current.catalog, ends.good.split(","), "--good")
    both = {name: release for name, release in good.items() if name not in moved}
    asked = replace(asked, session=current.with_pins(both))
    found = list[Reported]()
    for used, names in _by_used(asked, MovedPins(moved)).items():
        pins = MovedPins({name: moved[name] for name in used})
        if len(used) == 1:
            found += _bisect_moved(asked, names, used[0], pins.pins(0), {**both, **pins.pins(1)})
        else:
            results = asked.run(of_pins(asked.session, pins, names))
            asked = replace(asked, how=replace(asked.how, events=None))
            found += [*results, *(each for one in results for each in _descend(asked, one.bisection, pins, both))]
        # A second bisection must not overwrite the file of events.
        asked = replace(asked, how=replace(asked.how, events=None))
    return found


def _by_used(asked: _Asked, pins: MovedPins) -> dict[tuple[str, ...], list[str]]:
    """Return the tests by the moved components that they use. Raise UsageError if none uses any."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for test, components in used_components(asked.session, asked.tests, pins).items():
        groups.setdefault(tuple(components), []).append(test)
    for used, names in groups.items():
        if unused := [name for name in pins.moved if name not in used]:
            warn(
                f"{' '.join(names)}: the pins of {' and '.join(unused)} have no effect, because nothing there uses them"
            )
    groups.pop((), None)
    if not groups:
        raise UsageError(f"no test that can run at an end uses {' or '.join(pins.moved)}")
    return groups


def _descend(asked: _Asked, found: Bisection, pins: MovedPins, both: Mapping[str, str]) -> Iterator[Reported]:
    """Bisect the releases of each component of a guilty set. The other components keep their releases in it."""
    for change in found.changes:
        bad = {**both, **pins.pins(change.change.after)}
        for component in sorted(pins.components(change.change.after)):
            yield from _bisect_moved(asked, [found.test], component, pins.pins(0), bad)


def _bisect_moved(
    asked: _Asked, tests: Sequence[str], component: str, good: Mapping[str, str], bad: Mapping[str, str]
) -> Iterator[Reported]:
    """Bisect the releases of a component between two pin sets, with the other components at their bad releases."""
    others = {name: release for name, release in bad.items() if name != component}
    axis = make_axis(asked.session.catalog, component, good=good[component], bad=bad[component])
    session = asked.session.with_pins(others)
    words = [word for name, release in others.items() for word in ("--pin", f"{name}={release}")]
    kept = option_words(
        bisect_command, asked.arguments, without=("good", "bad", "component", "events", "form", "quiet")
    )
    arguments = [*tests, *kept, "--component", component, "--good", good[component], "--bad", bad[component], *words]
    ground = of_releases(session, axis, tests_on(session, tests, axis))
    yield from BisectionRun(session, ground, asked.how, arguments, None, bisect_command).run()


def _text(found: Sequence[Reported]) -> Iterator[Any]:
    from rich.markup import escape

    from mlir_matrix.bisect.report.text import bisection_lines  # imports rich

    for number, each in enumerate(found):
        yield from [""] if number else []
        yield from bisection_lines(each.bisection)
        yield f"report: {escape(str(each.report))}"
