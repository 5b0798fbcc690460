"""Publish the results of one run, for ``matrix run --html``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.paths import find_home
from mlir_matrix.base.text import now
from mlir_matrix.cli.output import note
from mlir_matrix.history.checked import check
from mlir_matrix.history.opening import with_library
from mlir_matrix.history.record import make_recording
from mlir_matrix.history.spool import new_id
from mlir_matrix.site.publish import make_folder

if TYPE_CHECKING:
    from mlir_matrix.results.documents import FinishedRun
    from mlir_matrix.results.results import Run

#: A function of a run, and of what is known of it.
Publish: TypeAlias = Callable[["Run", "FinishedRun"], None]


def publisher(folder: Path, tests: Sequence[str], *, cache_dir: Path | None) -> Publish:
    """Return a function that publishes a run into a folder. Raise UsageError before the run for what makes that impossible.

    ``tests``: the arguments of the command line that select tests.
    """
    make_folder(folder)
    with with_library("matrix run --html", "site"):
        from mlir_matrix.site.site import publish_runs

    def publish(run: Run, about: FinishedRun) -> None:
        """Raise InfrastructureError."""
        recording = make_recording(
            new_id(), run.results, about, tests, {}, causes=run.causes, interrupted=run.interrupted
        )
        home = find_home(cache_dir=cache_dir)
        try:
            publish_runs(folder, [check(recording)], about["started"], now(), home=home)
        except UsageError as error:
            # The folder, or the clock, has changed since. The results must still be shown.
            raise InfrastructureError(str(error)) from None
        note(f"pages: {folder / 'index.html'}")

    return publish
