"""``matrix golden calibrate``: propose tolerances from the errors of many draws."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.catalog.catalog import LocatedLayer
from mlir_matrix.catalog.load import TOLERANCES
from mlir_matrix.catalog.yaml_reader import read_text
from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import (
    NewFile,
    cache_option,
    catalog_option,
    format_option,
    limits_options,
    pin_option,
    session,
    tests_argument,
    used_pins,
)
from mlir_matrix.errors import InfrastructureError, UsageError
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.options import Limits
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose, granted
from mlir_matrix.files import write_output
from mlir_matrix.judge.run import run_graph
from mlir_matrix.plan.calibration import Draw, plan_draws
from mlir_matrix.plan.planner import Plan
from mlir_matrix.report.calibration_text import Failure, Report, Row, lines, sentence
from mlir_matrix.session import Session
from mlir_matrix.text import counted
from mlir_matrix.tolerances.calibration import LEAST, Calibration, Observation, calibrate
from mlir_matrix.tolerances.patch import Proposal, edited, patch, scaled
from mlir_matrix.tolerances.resolve import Resolved

#: What says nothing about the code under test.
_NOT_RUN = frozenset({Outcome.SKIPPED, Outcome.INFRA_ERROR})
#: Outputs of a test that have bounds to calibrate, by name.
_Bounded = Mapping[str, Resolved]


@click.command(
    "calibrate",
    cls=Verb,
    examples=(
        "matrix golden calibrate '*/linalg-*/x86_64/matmul'",
        "matrix golden calibrate smoke --seeds 50 --false-alarm 1e-9 --patch tolerances.patch",
    ),
)
@tests_argument
@click.option(
    "--seeds",
    type=click.IntRange(LEAST + 2, 10_000),
    default=20,
    show_default=True,
    metavar="N",
    help="Draw the inputs of each test N times.",
)
@click.option(
    "--false-alarm",
    "wanted",
    type=click.FloatRange(1e-15, 0.1),
    default=1e-6,
    show_default=True,
    metavar="RATE",
    help="Allow correct runs to fail at this rate.",
)
@click.option(
    "--patch",
    "file",
    type=NewFile(),
    metavar="FILE",
    help="Write the proposals to FILE, for git apply. No tolerance is changed.",
)
@catalog_option
@pin_option
@cache_option
@limits_options
@format_option("text", "json")
def calibrate_command(
    tests: tuple[str, ...],
    seeds: int,
    wanted: float,
    file: Path | None,
    catalogs: tuple[Path, ...],
    pins: tuple[str, ...],
    cache_dir: Path | None,
    limits: Limits,
    form: str,
) -> int:
    """Run tests on many draws of their inputs and propose tolerances.

    Without arguments, use the suite smoke. Each run is compared with the reference. For each tolerance layer, a Gumbel
    distribution is fitted to the largest errors of the worst test. The proposed bounds keep the rate of false alarms below
    --false-alarm.

    Exit code 1: a test failed.
    """
    current = session(catalogs, cache_dir, pins=pins)
    chosen = list(granted(current.catalog, choose(current.catalog, tests, pins=current.pins).tests()))
    runnable = [test for test in chosen if test.outcome is None and not test.is_ir]
    bounded = {test.id: _bounded(current, test) for test in runnable}
    usual = [test for test in runnable if bounded[test.id] and test.expectation is None]
    if not usual:
        raise UsageError("nothing to calibrate: no test that can run, and is expected to pass, has bounds other than 0")
    graph, draws = plan_draws(current.catalog, usual, current.tolerance, pins=current.pins, draws=seeds)
    click.echo(f"matrix: {counted(len(usual), 'test')}, {counted(len(graph.actions), 'action')}", err=True)
    asked = used_pins(current, Plan(tests=tuple(usual), graph=graph, verdicts={}))
    done = run_graph(current, graph, limits=limits)
    observations, failures = _gather(current, draws, done, bounded)
    failed = [one for one in failures if one.outcome not in _NOT_RUN]
    report = Report(
        draws=seeds,
        wanted=wanted,
        targets=sorted({test.target for test in usual}),
        pins=asked,
        tests=len(usual),
        executed=sum(each.executed for each in done.values()),
        rows=list(_rows(calibrate(observations, wanted=wanted), bounded, failed)),
        failures=failed,
        exact=_exact(current, runnable),
        expected=[test.id for test in runnable if test.expectation is not None],
        not_run=[(one.test, f"{one.outcome}: {one.reason}") for one in failures if one.outcome in _NOT_RUN],
    )
    report = replace(report, patch=_patch(current, report, bounded))
    _print(report, form, file)
    return _code(report)


def _bounded(current: Session, test: Test) -> _Bounded:
    outputs = current.catalog.workloads[test.workload].document.outputs
    bounds = {name: current.tolerance(test, name) for name, output in outputs.items() if output.compare != "exact"}
    return {name: bound for name, bound in bounds.items() if bound.atol or bound.rtol}


def _exact(current: Session, tests: Iterable[Test]) -> list[str]:
    """The layers whose bounds are 0, of those that win for these tests."""
    found: dict[str, None] = {}
    for test in tests:
        for name, output in current.catalog.workloads[test.workload].document.outputs.items():
            bound = current.tolerance(test, name)
            if output.compare != "exact" and not (bound.atol or bound.rtol):
                found[bound.location] = None
    return sorted(found)


def _gather(
    current: Session, draws: Sequence[Draw], done: Mapping[str, Done], bounded: Mapping[str, _Bounded]
) -> tuple[list[Observation], list[Failure]]:
    """What the verdicts say. A test with a draw that failed gives no numbers: those that are left would flatter it."""
    store = ActionCache(current.home.actions)
    observations: dict[str, list[Observation]] = {}
    failures: dict[str, list[tuple[int, str, str]]] = {}
    for draw in draws:
        result, name = done[draw.verdict].result, draw.test.id
        if not result.ok:
            failures.setdefault(name, []).append((draw.draw, result.outcome["outcome"], result.outcome["reason"]))
            continue
        verdict = json.loads(store.read_blob(result.outputs["verdict"]))
        if verdict["outcome"] != Outcome.PASS:
            failures.setdefault(name, []).append((draw.draw, verdict["outcome"], verdict["reason"]))
            continue
        observe = partial(Observation, test=name, draw=draw.draw)
        observations.setdefault(name, []).extend(
            observe(output=output["name"], layer=bound.location, used=float(output["error_used"]))
            for output in verdict["outputs"]
            if (bound := bounded[name].get(output["name"])) is not None
        )
    told = [
        Failure(test=name, draws=tuple(draw for draw, _, _ in all_of), outcome=all_of[0][1], reason=all_of[0][2])
        for name, all_of in failures.items()
    ]
    return [one for name, all_of in observations.items() if name not in failures for one in all_of], told


def _rows(found: Iterable[Calibration], bounded: Mapping[str, _Bounded], failures: Iterable[Failure]) -> Iterable[Row]:
    """The layers with what is proposed for them; nothing where a test that the layer decides is a mismatch."""
    mismatches: dict[str, list[str]] = {}
    for one in failures:
        if one.outcome == Outcome.MISMATCH:
            for layer in {bound.location for bound in bounded[one.test].values()}:
                mismatches.setdefault(layer, []).append(one.test)
    for calibration in sorted(found, key=lambda each: each.layer):
        wrong = mismatches.get(calibration.layer, [])
        if wrong:
            why_not = f"{counted(len(wrong), 'test')} that it decides gave a mismatch, {wrong[0]} for one"
            yield _row(calibration, bounded, why_not)
        else:
            yield _row(calibration, bounded, calibration.why_not)


def _row(calibration: Calibration, bounded: Mapping[str, _Bounded], why_not: str) -> Row:
    bound = bounded[calibration.worst.tests[0]][calibration.worst.output]
    now = {key: str(getattr(bound.layer.document, key)) for key in ("atol", "rtol")}
    if bound.max_ulp is not None:
        why_not = why_not or "its max_ulp decides, too: shares are of whichever bound leaves more room"
    factor = calibration.factor
    if why_not or factor is None:
        return Row(calibration=calibration, bounds=now, proposed={}, factor=None, why_not=why_not)
    others = {key: scaled(text, factor) for key, text in now.items() if getattr(bound, key)}
    proposed = {key: text for key, (text, _) in others.items()}
    if proposed.items() <= now.items():
        return Row(
            calibration=calibration, bounds=now, proposed={}, factor=None, why_not="its bounds are as they should be"
        )
    # At least so many times as wide: each is rounded up on its own.
    wider = min(ratio for _, ratio in others.values())
    return Row(calibration=calibration, bounds=now, proposed=proposed, factor=wider)


def _patch(current: Session, report: Report, bounded: Mapping[str, _Bounded]) -> str:
    """All proposals as one patch, file by file."""
    located: dict[str, LocatedLayer] = {
        bound.location: bound.layer for bounds in bounded.values() for bound in bounds.values()
    }
    files: dict[str, list[tuple[LocatedLayer, Proposal]]] = {}
    for row in report.rows:
        if row.proposed:
            layer = located[row.calibration.layer]
            proposal = Proposal(index=layer.index, bounds=row.proposed, sentence=sentence(row, report))
            files.setdefault(layer.source.file, []).append((layer, proposal))
    parts = []
    for shown, proposals in sorted(files.items()):
        layer = proposals[0][0]
        root = current.catalog.roots[layer.root]
        path = "/".join(("golden", *([layer.workload] if layer.workload else []), TOLERANCES))
        text = read_text(root / path, shown)
        # What stands before a file's changes is for people: each catalog takes its own.
        parts.append(f"In the catalog {root}:\n" if layer.root else "")
        parts.append(patch(path, text, edited(text, [each for _, each in proposals])))
    return "".join(parts)


def _print(report: Report, form: str, file: Path | None) -> None:
    if file is not None:
        write_output(file, report.patch.encode())
    if form == "json":
        click.echo(json.dumps(report.to_json(), indent=1, allow_nan=False))
        return
    from mlir_matrix.report.layout import print_lines, stdout_console

    print_lines(stdout_console(), lines(report))
    count = sum(bool(row.proposed) for row in report.rows)
    if count and file is None:
        click.echo(f"matrix: {counted(count, 'proposal')}; with --patch FILE they are written as a patch", err=True)


def _code(report: Report) -> int:
    if report.failures:
        return 1
    if any(reason.startswith(Outcome.INFRA_ERROR) for _, reason in report.not_run):
        raise InfrastructureError(report.not_run[0][1])
    if not report.rows:
        raise UsageError(f"no test ran: {report.not_run[0][1] if report.not_run else 'there is none'}")
    return 0
