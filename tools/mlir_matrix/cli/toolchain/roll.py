"""``matrix toolchain roll``: test newer releases and propose those that pass."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from mlir_matrix.catalog.catalog import DEFAULT_SUITE, Catalog
from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import cache_option, catalog_option, limits_options, quiet_option, session
from mlir_matrix.errors import UsageError
from mlir_matrix.execute.options import Limits
from mlir_matrix.judge.results import TestResult
from mlir_matrix.judge.roll import Break, Roll, Trial, newer, patches, roll
from mlir_matrix.judge.run import run_plan
from mlir_matrix.names import did_you_mean, printable
from mlir_matrix.plan.planner import Plan
from mlir_matrix.report.progress import shown
from mlir_matrix.session import Session
from mlir_matrix.text import counted

#: Broken tests that are named; the rest is counted.
_NAMED = 10


@click.command(
    "roll",
    cls=Verb,
    examples=(
        "matrix toolchain roll",
        "matrix toolchain roll qemu-user --suite aarch64",
        "matrix toolchain roll llvm > pins.patch && git apply pins.patch",
    ),
)
@click.argument("components", nargs=-1, metavar="[COMPONENT]...")
@click.option("--suite", default=DEFAULT_SUITE, show_default=True, metavar="SUITE", help="Run the tests of SUITE.")
@limits_options
@quiet_option
@cache_option
@catalog_option
def roll_releases(
    components: tuple[str, ...],
    suite: str,
    limits: Limits,
    quiet: bool,
    cache_dir: Path | None,
    catalogs: tuple[Path, ...],
) -> int:
    """Test newer releases of components and propose those that pass.

    Without arguments, try all components, one at a time. Only tests that use the component run. If the whole suite is as expected
    with all releases that passed, a patch of toolchains/known-good.yaml goes to stdout. Other releases are listed with the tests
    that they break.

    Exit code: 0 a newer release passes, or nothing is newer; 1 no newer release passes, or together they break a test; 2 the
    command or the files are wrong, or no test of the suite uses the component; 3 the machine could not try everything, and nothing
    under test failed.
    """
    current = session(catalogs, cache_dir)
    _check(current.catalog, components, suite)

    def run(under: Session, plan: Plan) -> Sequence[TestResult]:
        with shown(len(plan.verdicts), quiet=quiet) as listener:
            done = run_plan(under, plan, limits=limits, fail_fast=False, listener=listener)
        if done.interruption is not None:
            raise done.interruption
        return done.results

    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    names = dict.fromkeys(components or current.catalog.components)
    found = roll(current, names, suite, run, today=today, tell=lambda line: _say(f"matrix: {line}"))
    _tell(found, suite)
    if not components and not found.trials:
        _say("no component lists a newer release than the pinned one")
    if found.passed:
        for root, text in patches(current, found.pins, found.passed):
            # Before the change itself git takes any words.
            click.echo(f"# in {root}\n{text}", nl=False)
    if components and found.trials and not any(trial.affected for trial in found.trials):
        raise UsageError(
            f"no test of suite {suite} uses {' or '.join(names)}; name one with --suite that has such tests"
        )
    return found.exit_code


def _say(line: str) -> None:
    click.echo(line, err=True)


def _check(catalog: Catalog, components: Sequence[str], suite: str) -> None:
    """Refuse what is not there, and say where nothing is newer than what is pinned."""
    if suite not in catalog.suites:
        raise UsageError(f"there is no suite '{printable(suite)}'{did_you_mean(suite, catalog.suites)}")
    pinned = catalog.default_pins("")
    for name in components:
        if name not in catalog.components:
            raise UsageError(f"there is no component '{printable(name)}'{did_you_mean(name, catalog.components)}")
        if not newer(catalog.components[name], pinned[name]):
            _say(f"{name}: {pinned[name]} is the newest release that is listed")


def _tell(found: Roll, suite: str) -> None:
    for trial in found.trials:
        _tell_trial(trial, suite)
    if not found.together.green:
        _tell_together(found, suite)


def _tell_trial(trial: Trial, suite: str) -> None:
    change = f"{trial.component}: {trial.pinned} -> {trial.release}"
    if not trial.affected:
        _say(f"{change}: not tried: no test of suite {suite} uses it")
    elif trial.green:
        _say(f"{change}: green, {counted(len(trial.affected), 'test')} of suite {suite} touched")
    elif trial.findings.reason:
        _say(f"{change}: not tried: {trial.findings.reason}")
    else:
        count = f"{len(trial.findings.broken)} of {counted(len(trial.affected), 'test')}"
        _say(f"{change}: breaks {count} of suite {suite} that it touches{_with(trial.kept)}")
        _name(trial.findings.broken)


def _tell_together(found: Roll, suite: str) -> None:
    """What of the suite is not as expected under all that is green by itself."""
    _say(f"no patch is proposed{_with(found.pins)}")
    if found.together.reason:
        _say(f"  suite {suite} could not be tried: {found.together.reason}")
        return
    _say(f"  {counted(len(found.together.broken), 'test')} of suite {suite} not as expected:")
    _name(found.together.broken, lambda test: " and ".join(found.touching(test)) or "none of these")


def _with(pins: Mapping[str, str]) -> str:
    shown = ", ".join(f"{name} {release}" for name, release in pins.items())
    return f", together with {shown}" if shown else ""


def _name(broken: Sequence[Break], touched_by: Callable[[str], str] | None = None) -> None:
    for each in broken[:_NAMED]:
        by = f" (touched by {touched_by(each.id)})" if touched_by else ""
        _say(f"  {each.outcome} {each.id}{by}: {each.reason}")
    if len(broken) > _NAMED:
        _say(f"  and {len(broken) - _NAMED} more")
