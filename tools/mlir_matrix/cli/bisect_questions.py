"""Ask a person what to make of results: ``matrix bisect --interactive``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.base.paths import launcher
from mlir_matrix.bisect.log import Log
from mlir_matrix.bisect.observations import Observation, Observations
from mlir_matrix.bisect.releases import Axis
from mlir_matrix.cli.output import note
from mlir_matrix.judge.signature import PASS, Signature

_ANSWERS = {
    "g": PASS,
    "b": Signature(outcome=Outcome.MISMATCH, details=("judged bad by a person",)),
    "s": None,
}


def ask(axis: Axis, log: Log, observations: Observations, new: Sequence[Observation]) -> None:
    """Ask for the verdict of each new observation, and keep it. Raise click's Exit when the person stops."""
    for seen in new:
        result = seen.result
        note("")
        note(f"{seen.test} with {axis.component} {axis.names[seen.point]}: {result.outcome}")
        for line in (result.reason, *result.diagnostics.splitlines()[:12]):
            if line:
                note(f"  {line}")
        guess = "s" if seen.signature is None else "g" if seen.signature == PASS else "b"
        answer = click.prompt(
            "Is it good (g), bad (b), or can nothing be told (s)? Stop here: q",
            type=click.Choice([*_ANSWERS, "q"]),
            default=guess,
            show_choices=False,
            err=True,
        )
        if answer == "q":
            note(f"continue with: {launcher()} bisect --resume")
            raise click.exceptions.Exit(0)
        judged = replace(seen, signature=_ANSWERS[answer], judged=True)
        log.judged(judged, observations.replace(seen, judged))
