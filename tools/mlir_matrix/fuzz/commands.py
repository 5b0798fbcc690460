"""``matrix fuzz``: compose programs at random, and reduce each failure that is new."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix.base.errors import MatrixError, UsageError
from mlir_matrix.base.names import check_known
from mlir_matrix.base.paths import find_home
from mlir_matrix.cli import options
from mlir_matrix.cli.output import note, show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.execute.progress import shown
from mlir_matrix.fuzz.documents import Fuzz
from mlir_matrix.fuzz.findings import Findings
from mlir_matrix.fuzz.known import read_known
from mlir_matrix.fuzz.report import lines
from mlir_matrix.fuzz.session import Fuzzer, WantedRoutes, deadline, own_folder
from mlir_matrix.plan.request import Limits

if TYPE_CHECKING:
    from mlir_matrix.catalog.catalog import Catalog
    from mlir_matrix.environments.session import Session

#: What is fuzzed unless routes are named. ``composed*`` are those that the session composes.
ROUTES = (
    "mlir/{linalg-loops,linalg-named,linalg-vectorized,composed*}/x86_64",
    "tosa/{tosa-loops,composed*}/x86_64",
    "stablehlo/{stablehlo-loops,composed*}/x86_64",
    "stablehlo/xla-cpu/xla-cpu",
    "pytorch/{linalg-loops,tosa-loops,stablehlo-loops,composed*}/x86_64",
    "onnx/composed*/x86_64",
    "jax/stablehlo-loops/x86_64",
)
#: How long a failure is reduced, at least and at most; between them, as long as a session takes.
_REDUCE_S = (10.0, 60.0)


@verb(
    "fuzz",
    "matrix fuzz --budget 30m",
    "matrix fuzz mlir/linalg-vectorized/x86_64 --seed 7",
    "matrix fuzz linalg-tile-vectorize --pin llvm=23",
    "matrix fuzz 'mlir/composed*/x86_64' --known known.yaml",
)
@click.argument("routes", nargs=-1, metavar="[ROUTE|STEP]...")
@options.budget("10m", "Compose programs for this time, e.g. 90s or 1h.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Compose other programs.")
@click.option(
    "--known",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Findings that need no report, beside those of matrix/known-findings.yaml, in the same form.",
)
@click.option("--first", is_flag=True, help="End with the first new finding.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write a folder for each finding into this one.",
)
@options.limits
@options.session(options.cache, *options.releases, *options.builds)
@options.output_format("text", "json")
@options.quiet
@click.pass_context
def fuzz_command(
    context: click.Context,
    routes: tuple[str, ...],
    budget: float,
    seed: int,
    known: Path | None,
    first: bool,
    out: Path | None,
    current: Session,
    limits: Limits,
    form: str,
    quiet: bool,
) -> int:
    """Compose programs at random, run them on routes, and reduce each failure that is unlike those before it.

    A ROUTE is a glob of cells; with a STEP, all routes are fuzzed that have it, or those of the globs. Programs have a reference
    in NumPy and derived bounds, so a mismatch is a miscompile, not a difference of roundings. One round of ten runs workloads of
    the catalogs in other sizes, if a ROUTE is one of PyTorch, and one runs members of corpora on composed routes. A finding is
    reduced, run with other inputs and with other releases, and written as an issue.

    A session that is interrupted prints what it has found.

    Exit code: 0 nothing new; 1 a finding that is not known; 3 the infrastructure failed.
    """
    began = time.monotonic()
    wanted = wanted_by(routes, current.catalog)
    words = options.words_of_run(context, fuzz_command)
    known_findings = read_known(current, known)
    folder = (out or find_home().state / "fuzz").absolute()
    with own_folder(folder), shown(quiet=quiet) as listener:
        fuzzer = Fuzzer(current, wanted, folder, seed, limits, listener)
        least, most = _REDUCE_S
        reduce_s = min(max(budget, least), most)
        findings = Findings(fuzzer, folder, limits, reduce_s, listener, known_findings, words)
        interruption = _fuzz(fuzzer, findings, deadline(budget), first=first)
    found = [finding.entry() for finding in findings.found.values()]
    new = sum(not each["known"] for each in found)
    document: Fuzz = {
        "schema": "mlir-matrix/fuzz/v1",
        "summary": {
            "seed": seed,
            "programs": fuzzer.counts.programs,
            "judged": fuzzer.counts.judged,
            "outputs": fuzzer.counts.outputs,
            "weak": fuzzer.counts.weak,
            "undecided": fuzzer.counts.undecided,
            "routes": sorted(fuzzer.counts.routes),
            "seconds": round(time.monotonic() - began, 3),
            "cpu_seconds": round(_cpu_seconds(), 3),
            "findings": len(found),
            "new": new,
            "interrupted": interruption is not None,
        },
        "findings": found,
        "pairs": {f"{after} after {before}": count for (before, after), count in fuzzer.counts.coverage.pairs.items()},
    }
    show(form, document, lines(document), markup=True)
    if interruption is not None:
        raise interruption
    return int(new > 0)


def _fuzz(
    fuzzer: Fuzzer, findings: Findings, until: Callable[[], bool], *, first: bool
) -> KeyboardInterrupt | MatrixError | None:
    """Take all failures, or end with the ``first`` new finding. Return what interrupted the session, if there are findings."""
    try:
        for failure in fuzzer.failures(until):
            finding = findings.add(failure)
            if finding and not finding.known:
                note(f"{finding.key}: {failure.result.outcome}: {failure.result.id}")
                if first:
                    break
    except KeyboardInterrupt as error:
        return error
    except MatrixError as error:
        if not findings.found:
            raise
        return error
    return None


def wanted_by(words: Sequence[str], catalog: Catalog) -> WantedRoutes:
    """Return the routes of words that are globs of cells, or one step. Raise UsageError."""
    steps = [word for word in words if "/" not in word]
    if not steps:
        return WantedRoutes(words or ROUTES)
    check_known("step", steps, catalog.steps)
    if len(steps) > 1:
        raise UsageError(f"{steps[0]}, {steps[1]}: expected one step")
    cells = [word for word in words if "/" in word]
    return WantedRoutes(cells or ["*/*/*"], steps[0])


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
