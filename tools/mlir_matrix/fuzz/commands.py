"""``matrix fuzz``: compose programs at random, and reduce each failure that is new."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix.base.paths import find_home
from mlir_matrix.cli import options
from mlir_matrix.cli.output import note
from mlir_matrix.cli.verbs import verb
from mlir_matrix.execute.progress import shown
from mlir_matrix.fuzz.findings import Findings, read_known
from mlir_matrix.fuzz.session import Fuzzer, deadline
from mlir_matrix.plan.request import Limits
from mlir_matrix.reduce.report import shown_progress
from mlir_matrix.reduce.tester import Progress

if TYPE_CHECKING:
    from mlir_matrix.environments.session import Session

ROUTES = (
    "mlir/{linalg-loops,linalg-named,linalg-vectorized}/x86_64",
    "tosa/tosa-loops/x86_64",
    "stablehlo/stablehlo-loops/x86_64",
    "stablehlo/xla-cpu/xla-cpu",
    "pytorch/{linalg-loops,tosa-loops,stablehlo-loops}/x86_64",
)


@verb("fuzz", "matrix fuzz --budget 10m", "matrix fuzz 'mlir/linalg-vectorized/x86_64' --seed 7")
@click.argument("routes", nargs=-1, metavar="[ROUTE]...")
@click.option("--budget", default=300.0, show_default=True, help="Seconds.")
@click.option("--seed", default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option("--known", type=click.Path(path_type=Path), metavar="FILE")
@options.limits
@options.session(options.cache, *options.releases, *options.builds)
@options.quiet
def fuzz_command(
    routes: tuple[str, ...], budget: float, seed: int, out: Path | None, known: Path | None,
    current: Session, limits: Limits, quiet: bool,
) -> int:  # fmt: skip
    """Compose programs and run them on routes."""
    folder = out or find_home().state / "fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    live, plain = shown_progress(Progress())
    with shown(quiet=quiet, live=live, plain=plain) as listener:
        fuzzer = Fuzzer(current, routes or ROUTES, folder, seed, limits, listener)
        findings = Findings(fuzzer, folder, limits, 60.0, listener, read_known(known) if known else {})
        for failure in fuzzer.failures(deadline(budget)):
            if finding := findings.add(failure):
                note(f"{finding.key} {failure.result.id}: {failure.result.outcome}: {failure.result.reason[:200]}")
                if finding.reduced:
                    note(f"  {finding.step} {','.join(finding.reduced.passes)}: {finding.folder}")
                else:
                    note(f"  not reduced: {finding.trouble[:200]}")
    counts = fuzzer.counts
    note(f"{counts.programs} programs, {counts.judged} judged, {counts.rounds} rounds, {len(findings.found)} findings")
    for each in findings.found.values():
        note(f"  {each.count} x {each.key} {each.failure.result.outcome} {each.failure.result.reason[:150]}")
    return int(bool(findings.found))
