"""``matrix toolchain roll``: test newer releases and propose those that pass."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence

import click

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import check_known, select_known
from mlir_matrix.base.text import counted
from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli import options
from mlir_matrix.cli.output import note, warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.judge.results import TestResult
from mlir_matrix.judge.roll import Break, Roll, newer, patches, roll
from mlir_matrix.judge.run import run_plan
from mlir_matrix.plan.planner import Plan
from mlir_matrix.plan.request import Limits
from mlir_matrix.report.progress import shown_tests

#: Broken tests that are listed by name.
_NAMED = 10


@verb(
    "roll",
    "matrix toolchain roll",
    "matrix toolchain roll qemu-user --suite targets",
    "matrix toolchain roll llvm > pins.patch && git apply pins.patch",
)
@click.argument("components", nargs=-1, metavar="[COMPONENT|GLOB]...")
@click.option("--suite", default=DEFAULT_SUITE, show_default=True, metavar="SUITE", help="Run the tests of SUITE.")
@options.limits
@options.quiet
@options.session(*options.builds, options.cache)
def roll_command(components: tuple[str, ...], suite: str, limits: Limits, quiet: bool, current: Session) -> int:
    """Test newer releases of components and propose those that pass.

    Without arguments, try all components, one at a time. Only tests that use the component run. If the whole suite is as expected
    with all releases that passed, a patch of toolchains/known-good.yaml goes to stdout. Other releases are listed with the tests
    that they break.

    Exit code: 0 a newer release passes, or nothing is newer; 1 no newer release passes, or together they break a test; 2 the
    command or the files are wrong, or no test of the suite uses the component; 3 the machine could not try everything, and nothing
    under test failed.
    """
    catalog = current.catalog
    components = tuple(select_known("component", components, catalog.components))
    _check(current, components, suite)

    def run(under: Session, plan: Plan) -> Sequence[TestResult]:
        with shown_tests(len(plan.verdicts), quiet=quiet) as listener:
            done = run_plan(under, plan, limits=limits, fail_fast=False, listener=listener)
        if done.interruption is not None:
            raise done.interruption
        return done.results

    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    names = dict.fromkeys(components or catalog.components)
    found = roll(current, names, suite, run, today=today, tell=warn)
    for line in _lines(found, suite):
        note(line)
    if not components and not found.trials:
        note("no component lists a newer release than the pinned one")
    if found.passed:
        for root, text in patches(current, found.pins, found.passed):
            # Git ignores text before a patch.
            click.echo(f"# in {root}\n{text}", nl=False)
    if components and found.trials and not any(trial.affected for trial in found.trials):
        raise UsageError(f"no test of suite {suite} uses {' or '.join(names)}; name another suite with --suite")
    return found.exit_code


def _check(current: Session, components: Sequence[str], suite: str) -> None:
    """Raise UsageError for an unknown name; report components without newer releases."""
    catalog, pinned = current.catalog, current.catalog.default_pins("")
    check_known("suite", [suite], catalog.suites)
    for name in components:
        if not newer(catalog.components[name], pinned[name]):
            note(f"{name}: {pinned[name]} is the newest listed release")


def _lines(found: Roll, suite: str) -> Iterator[str]:
    for trial in found.trials:
        change = f"{trial.component}: {trial.pinned} -> {trial.release}"
        tests = counted(len(trial.affected), "test")
        if not trial.affected:
            yield f"{change}: not tried: no test of suite {suite} uses it"
        elif trial.green:
            yield f"{change}: green, {tests} of suite {suite} affected"
        elif trial.findings.reason:
            yield f"{change}: not tried: {trial.findings.reason}"
        else:
            broken = trial.findings.broken
            yield f"{change}: breaks {len(broken)} of {tests} of suite {suite} that it affects{_with(trial.kept)}"
            yield from _broken(broken)
    together = found.together
    if together.green:
        return
    yield f"no patch is proposed{_with(found.pins)}"
    if together.reason:
        yield f"  suite {suite} could not be tried: {together.reason}"
        return
    yield f"  {counted(len(together.broken), 'test')} of suite {suite} not as expected:"
    yield from _broken(together.broken, lambda test: " and ".join(found.touching(test)) or "none of these")


def _with(pins: Mapping[str, str]) -> str:
    listed = ", ".join(f"{name} {release}" for name, release in pins.items())
    return f", together with {listed}" if listed else ""


def _broken(broken: Sequence[Break], affected_by: Callable[[str], str] | None = None) -> Iterator[str]:
    for each in broken[:_NAMED]:
        by = f" (affected by {affected_by(each.id)})" if affected_by else ""
        yield f"  {each.outcome} {each.id}{by}: {each.reason}"
    if len(broken) > _NAMED:
        yield f"  and {len(broken) - _NAMED} more"
