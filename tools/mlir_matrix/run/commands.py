"""``matrix run`` and ``matrix plan``."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
from click.core import ParameterSource

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import DiskFullError, InfrastructureError, MatrixError, UsageError
from mlir_matrix.base.files import write_output
from mlir_matrix.base.names import is_glob
from mlir_matrix.base.paths import find_home, launcher, launcher_path, repository
from mlir_matrix.base.text import counted, now
from mlir_matrix.cli import options
from mlir_matrix.cli.output import note, report_trim, used_pins, warn
from mlir_matrix.cli.verbs import ARGUMENTS, option_words, verb
from mlir_matrix.history.spool import Spool
from mlir_matrix.plan.request import EVERYTHING, FAILED, Request, SelectionOptions
from mlir_matrix.results.event_log import EventLog
from mlir_matrix.results.results import NOT_RUN, Run, exit_code, to_document
from mlir_matrix.results.run_info import RunInfo
from mlir_matrix.run.last_run import failed_in, last_failed, remember
from mlir_matrix.run.unchanged import KeptRun, UnchangedRuns

if TYPE_CHECKING:
    from mlir_matrix.environments.session import Session
    from mlir_matrix.fleet.selection import Selected
    from mlir_matrix.plan.planner import PlannedTests
    from mlir_matrix.results.report.annotations import Annotations
    from mlir_matrix.site.of_run import Publish

#: How ``--explain-failures`` calls ``matrix bisect``, and for how many causes.
_SENTENCES, _EXPLAINED = ("--over", "steps", "--installed", "--format", "line", "--quiet"), 8


@verb(
    "run",
    "matrix run",
    "matrix run 'pytorch/*/x86_64/mlp' --junit mlp.xml",
    "matrix run --pin llvm=22 'mlir/**'",
    "matrix run smoke --format json > results.json",
    "matrix run smoke --format github",
    "matrix run smoke --results results.json --events events.ndjson",
    "matrix run 'jax/**' --repeat 5 --rerun-from run",
    "matrix run --failed",
    "matrix run --keep all pytorch/linalg-loops/x86_64/mlp",
    "matrix run --cost --strict 'mlir/*/x86_64-v3/matmul'",
    "matrix run --machine x86-64-builder",
    "matrix run nightly --html site",
    "matrix run smoke --shard 2/3 --results shard-2.json",
)
@options.tests
@options.catalog
@options.pin
@options.cache
@options.output_format("table", "json", "buildbot", "github")
@options.limits
@click.option("--failed", is_flag=True, help="Run what was not as expected in the last run here.")
@click.option(
    "--failed-in",
    "failed_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Run what was not as expected in FILE, written by --results.",
)
@click.option(
    "--keep-going/--fail-fast", default=True, help="Continue after an unexpected outcome, or stop. Default: continue."
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Run each test N times anew, whatever is cached. Different outcomes are reported as flaky.",
)
@click.option(
    "--rerun-from",
    type=click.Choice(("import", "lower", "codegen", "run")),
    help="Run tests anew from this stage on; with --repeat: each time. Earlier stages may be cached.",
)
@click.option(
    "--keep",
    default=FAILED,
    metavar="failed|all|TESTS",
    help="Keep the files of these tests in folders, with the compilers' command lines. Default: failed.",
)
@click.option(
    "--results", type=options.NewFile(), metavar="FILE", help="Also write the document of --format json to FILE."
)
@options.events
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Also write pages of this run into DIR, a new folder or a site.",
)
@click.option("--junit", type=options.NewFile(), metavar="FILE", help="Also write JUnit XML to FILE.")
@options.environment
@options.size
@options.cost
@options.strict
@options.executor
@options.permissions
@options.selection
@options.quiet
@click.option("--verbose", "-v", is_flag=True, help="Also print a line for each test, with its seconds.")
@click.option(
    "--slowest", type=click.IntRange(0), metavar="N", default=0, help="Also list the N tests that took longest."
)
@click.option(
    "--explain-failures", "explaining", is_flag=True, help="Also say for each cause of failures which step is wrong."
)
@options.as_dataclass("request", Request)
def run_command(
    request: Request,
    form: str,
    results: Path | None,
    events: Path | None,
    html: Path | None,
    junit: Path | None,
    quiet: bool,
    verbose: bool,
    slowest: int,
    failed: bool,
    failed_file: Path | None,
    explaining: bool,
) -> int:
    """Run tests and compare each outcome with the expected one.

    Without arguments, run the suite smoke. An action whose inputs did not change is not run again; its result comes from the
    cache.

    Exit code: 0 all outcomes as expected; 1 something under test is not as expected; 2 the command or the files are wrong; 3 the
    infrastructure failed, and nothing under test did.
    """
    on_stdout = _writes_events_to_stdout(events, form)
    if failed or failed_file:
        return _run_failed(failed_file)
    publish = _publisher(html, request)
    about = _describe(request) if form == "json" or results or events or publish else None
    annotations = _annotations(form, request) if form in ("buildbot", "github") else None
    log = EventLog(events)
    report = _run(request, about, log, quiet=quiet)
    run = report.run
    document = (
        json.dumps(to_document(run, about.finished(), report.selection))
        if about and (form == "json" or results)
        else ""
    )
    remember(find_home().state, run, whole=request.keep_going)
    # Files come first: the reader of stdout may have closed it.
    problems = _write_all([partial(log.ended, run), *_writers(report, document, about, results, junit, publish)])
    if form == "json":
        click.echo(document)
    elif annotations:
        problems += _write_all([partial(annotations.print, run, report.pins, report.left_out)])
    else:
        from mlir_matrix.results.report.summary import print_summary

        print_summary(
            run,
            report.pins,
            report.left_out,
            verbose=verbose,
            slowest=slowest,
            pattern=any(map(is_glob, request.tests)),
            stderr=on_stdout,
        )
    if explaining and not run.interrupted:
        _explain(request, report, stderr=form != "table" or on_stdout)
    if isinstance(run.interruption, DiskFullError):
        problems.append(run.interruption)
    warn(*problems)
    if isinstance(run.interruption, KeyboardInterrupt):
        raise run.interruption
    if run.executed:
        from mlir_matrix.execute.eviction import trim_cache  # not needed for an unchanged run

        report_trim(*trim_cache(find_home(cache_dir=request.cache_dir)), quiet=quiet)
    return _exit_code(report, problems)


def _explain(request: Request, report: KeptRun, *, stderr: bool) -> None:
    """Let the verb ``bisect`` say for one test of each cause which step is wrong."""
    examples = _examples(report.run)
    if not examples:
        return
    # The verb's own module is not imported here: a change of it affects no test.
    context = click.get_current_context()
    verb = cast(click.Group, context.find_root().command).get_command(context, "bisect")
    assert verb is not None
    words = [*_SENTENCES, *options.shared_words(request), *examples[:_EXPLAINED]]
    with redirect_stdout(sys.stderr if stderr else sys.stdout):
        try:
            with verb.make_context("bisect", words, parent=context.parent) as again:
                verb.invoke(again)
        except MatrixError as error:
            warn(error)
    if len(examples) > _EXPLAINED:
        note(f"{counted(len(examples) - _EXPLAINED, 'more cause')}: matrix bisect TEST --over steps")


def _examples(run: Run) -> list[str]:
    """Return for each cause of failures under test the first of its tests that runs a program."""
    programs = {each.id for each in run.results if not each.identity.is_ir and not each.tested_property}
    found = []
    for cause in run.causes:
        if cause["kind"] not in ("infrastructure", "expectation"):
            found += [test for test in cause["tests"] if test in programs][:1]
    return found


def _writes_events_to_stdout(events: Path | None, form: str) -> bool:
    on_stdout = str(events) == "-"
    if on_stdout and form != "table":
        raise UsageError(f"--events - and --format {form} both write to stdout; write one to a file: --results FILE")
    return on_stdout


def _run_failed(file: Path | None) -> int:
    """Run what failed in the run of a file, or in the last one, with its options and those of this command."""
    context = click.get_current_context()
    command, given = context.command, context.meta[ARGUMENTS]
    if context.get_parameter_source("tests") == ParameterSource.COMMANDLINE:
        raise UsageError("--failed selects the tests; name no others")
    if file is None:
        found = last_failed(find_home().state)
    else:
        from mlir_matrix.results.merge import read_results  # imports the models

        document = read_results(file)
        found = failed_in(document["tests"], interrupted=document["interrupted"])
    if found.cut_short:
        note("that run ended early: tests that it did not reach are left out")
    if not found.ids:
        note("nothing to run: all was as expected")
        return 0
    words = found.words(command, option_words(command, given, without={"failed", "failed_file"}))
    with command.make_context(str(context.info_name), words, parent=context.parent) as again:
        code: int = command.invoke(again)
    return code


def _annotations(form: str, request: Request) -> Annotations:
    from mlir_matrix.results.report.annotations import Annotations  # imports rich

    annotations = Annotations(form, [*request.catalogs, repository()])
    click.get_current_context().call_on_close(annotations.close)
    return annotations


def _publisher(html: Path | None, request: Request) -> Publish | None:
    """Return the function that writes pages of a run. Raise UsageError."""
    if html is None:
        return None
    # Named as text, like the modules of verbs: a change of pages affects no test.
    site = import_module("mlir_matrix.site.of_run")
    publish: Publish = site.publisher(html, request.tests, cache_dir=request.cache_dir)
    return publish


def _describe(request: Request) -> RunInfo:
    roots = [os.path.abspath(root) for root in (repository(), *request.catalogs)]
    return RunInfo(shlex.join([launcher(), *sys.argv[1:]]), roots, request.tests)


def _run(request: Request, about: RunInfo | None, log: EventLog, *, quiet: bool) -> KeptRun:
    """Run the tests, or return the results of an unchanged run."""
    started = now()
    unchanged, spool = UnchangedRuns(request), Spool(find_home().state)
    report = unchanged.find()
    # A run that the history does not have cannot be repeated there.
    if report is None or not spool.knows(report.recorded):
        from mlir_matrix.run.run_tests import run_tests  # not needed for an unchanged run

        return run_tests(request, unchanged, quiet=quiet, about=about or _describe(request), log=log)
    if about is not None:
        from mlir_matrix.results.run_folder import RunFolder  # imports what removes folders of actions

        results = report.run.results
        unsupported = sum(result.outcome == Outcome.UNSUPPORTED and not result.stage for result in results)
        folder = RunFolder(find_home().state / "failures", report.pins)
        log.planned(about.started(), tests=len(results), unsupported=unsupported, folder=folder)
    if trouble := spool.repeat(report.recorded, started=started, ended=now()):
        warn(trouble)
    return report


def _writers(
    report: KeptRun,
    document: str,
    about: RunInfo | None,
    results: Path | None,
    junit: Path | None,
    publish: Publish | None,
) -> Iterator[Callable[[], object]]:
    """Yield what writes the files of the command line."""
    run = report.run
    if results is not None:
        yield partial(write_output, results, document.encode() + b"\n")
    if junit is not None:
        from mlir_matrix.results.report.junit import write_junit

        yield partial(write_junit, junit, run.results, run.causes)
    if publish is not None and about is not None:
        yield partial(publish, run, about.finished())


def _write_all(writers: list[Callable[[], object]]) -> list[InfrastructureError]:
    """Write files. Return the errors: one that cannot be written leaves the others, and the table."""
    problems = []
    for write in writers:
        try:
            write()
        except InfrastructureError as error:
            problems.append(error)
    return problems


def _exit_code(report: KeptRun, problems: list[InfrastructureError]) -> int:
    results = report.run.results
    code = exit_code(results)
    outcomes = {result.outcome for result in results}
    # Other shards may have all tests that run, and a change may leave none.
    may_be_empty = not {"shard", "change"}.isdisjoint(report.selection or ())
    elsewhere = outcomes == {Outcome.UNSUPPORTED} and may_be_empty
    if code == 0 and outcomes and outcomes <= NOT_RUN and not (elsewhere or report.run.interrupted):
        reasons = dict.fromkeys(result.reason for result in results if result.outcome in NOT_RUN)
        raise UsageError(f"no test ran: {'; '.join(list(reasons)[:3])}")
    return code or (InfrastructureError.exit_code if problems else 0)


_BATCH = 2_000
#: Formats of ``matrix plan`` that other programs read to run the tests.
_ENTRIES = ("ctest", "lit")


@verb(
    "plan",
    "matrix plan",
    "matrix plan 'jax/**' --format ids",
    "matrix plan smoke 'pytorch/*/x86_64/mlp*' --format json",
    "matrix plan --machine x86-64-builder",
    "matrix plan smoke --format ctest > build/CTestTestfile.cmake",
    "matrix plan smoke --format lit > build/lit.cfg.py",
)
@options.tests
@options.session(*options.releases)
@options.sealed
@options.device
@options.selection
@options.output_format("table", "json", "ids", *_ENTRIES)
@click.option(
    "--check",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Print nothing; exit with 1 if FILE, written by --format json, is stale.",
)
def plan_command(
    tests: tuple[str, ...],
    current: Session,
    sealed: bool,
    devices: tuple[str, ...],
    selection: SelectionOptions,
    form: str,
    check: Path | None,
) -> int:
    """Show which tests would run and why, without running them.

    Without arguments, plan the suite smoke. A glob matches segment by segment. A suite and a glob select the tests of the suite
    that match the glob.
    """
    from mlir_matrix.expand.select import choose  # not needed for an unchanged run
    from mlir_matrix.fleet.selection import select

    if form == "ids" and selection == EVERYTHING:
        _print_lines(choose(current.catalog, tests, pins=current.pins).ids())
        return 0
    if form in _ENTRIES and selection.machine:
        raise UsageError(f"--format {form} writes tests for any machine; remove --machine, or give --machine none")
    selected = select(current, tests, selection, devices, excluded=True)
    chosen, current = selected.tests, selected.current
    if form == "ids":
        _print_lines(test.id for test in chosen if not test.excluded)
        return 0
    if form in _ENTRIES:
        _print_lines(_entries(form, current, tests, [test.id for test in chosen if test.selected]))
        return 0
    plan = selected.plan([test for test in chosen if test.selected])
    used_pins(current, plan.graph)
    if check is not None:
        return _check(check, selected, plan, sealed=sealed)
    if form == "json":
        from mlir_matrix.execute.plan_document import document_parts, to_lines

        _print_lines(to_lines(document_parts(chosen, plan, current, sealed=sealed, selection=selected.document)))
        return 0
    from rich.markup import escape

    from mlir_matrix.base.layout import print_lines
    from mlir_matrix.run.report import plan_lines

    print_lines([*plan_lines(chosen, plan, current, sealed=sealed), *map(escape, selected.lines)])
    return 0


def _entries(form: str, current: Session, tests: Sequence[str], selected: Sequence[str]) -> Iterator[str]:
    """Return the lines of a file for CTest or lit. Raise UsageError if no test is left."""
    from mlir_matrix.run.entries import ctest_lines, lit_lines, words_anywhere

    if not selected:
        raise UsageError(f"--format {form}: no test can run; for the reasons, leave out --format {form}")
    words = words_anywhere(click.get_current_context())
    if form == "lit":
        return lit_lines(launcher_path(), words, tests)
    suites = [name for name in tests if name in current.catalog.suites]
    return ctest_lines(launcher_path(), words, suites, selected)


def _check(file: Path, selected: Selected, plan: PlannedTests, *, sealed: bool) -> int:
    """Return 0 if a file has this plan, apart from what differs between machines, else 1."""
    from mlir_matrix.execute.plan_document import lasting, to_document

    try:
        was = lasting(json.loads(file.read_bytes()))
    except OSError as error:
        raise UsageError(f"--check {file}: {error.strerror}") from None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise UsageError(f"--check {file}: not a plan; make one with: matrix plan --format json") from None
    document = to_document(selected.tests, plan, selected.current, sealed=sealed, selection=selected.document)
    now = json.loads(json.dumps(lasting(document)))
    if was == now:
        return 0
    parts = [part for part in now if was.get(part) != now[part]]
    warn(f"{file} is stale: its {', '.join(parts)} changed; make it again with: matrix plan --format json")
    return 1


def _print_lines(lines: Iterable[str]) -> None:
    """Print lines in batches: a suite may have a million tests, and a line of a plan some kilobytes."""
    rest = iter(lines)
    while batch := list(islice(rest, _BATCH)):
        click.echo("\n".join(batch))
