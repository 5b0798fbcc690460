"""``matrix golden calibrate``: propose tolerances from the errors of many draws."""

from __future__ import annotations

from pathlib import Path

import click

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.files import write_output
from mlir_matrix.base.text import counted
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show, used_pins, warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.judge.calibration import Calibrator
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import select_tests
from mlir_matrix.report.calibration_text import calibration_lines
from mlir_matrix.tolerances.calibration import LEAST


@verb(
    "calibrate",
    "matrix golden calibrate '*/linalg-*/x86_64/matmul'",
    "matrix golden calibrate smoke --seeds 50 --false-alarm 1e-9 --patch tolerances.patch",
)
@options.tests
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
    type=options.NewFile(),
    metavar="FILE",
    help="Write the proposals to FILE, for git apply. No tolerance is changed.",
)
@options.session(*options.releases, *options.builds, options.cache)
@options.limits
@options.output_format("text", "json")
def calibrate_command(
    tests: tuple[str, ...], seeds: int, wanted: float, file: Path | None, current: Session, limits: Limits, form: str
) -> int:
    """Run tests on many draws of their inputs and propose tolerances.

    Without arguments, use the suite smoke. Each run is compared with the reference. For each tolerance layer, a Gumbel
    distribution is fitted to the largest errors of the worst test. The proposed bounds keep the rate of false alarms below
    --false-alarm.

    Exit code 1: a test failed.
    """
    calibrator = Calibrator(current, select_tests(current, tests), seeds)
    warn(f"{counted(len(calibrator.tests), 'test')}, {counted(len(calibrator.graph.actions), 'action')}")
    document = calibrator.run(limits, wanted=wanted, pins=used_pins(current, calibrator.graph))
    if file is not None:
        write_output(file, document["patch"].encode())
    show(form, document, calibration_lines(document), markup=True)
    proposals = sum(bool(layer["proposed"]) for layer in document["layers"])
    if proposals and file is None and form == "text":
        warn(f"{counted(proposals, 'proposal')}; --patch FILE writes them as a patch")
    if document["failed"]:
        return 1
    reasons = [each["reason"] for each in document["not_run"]]
    if any(reason.startswith(Outcome.INFRA_ERROR) for reason in reasons):
        raise InfrastructureError(reasons[0])
    if not document["layers"]:
        raise UsageError(f"no test ran: {reasons[0] if reasons else 'none was selected'}")
    return 0
