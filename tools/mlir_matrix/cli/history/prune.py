"""``matrix history prune``: replace old results by monthly summaries."""

from __future__ import annotations

import re
import time
from typing import Any

import click

from mlir_matrix.base.text import at, counted, now
from mlir_matrix.cli.history_store import database, open_chosen
from mlir_matrix.cli.verbs import verb

_DAY_S = 86_400


class _Days(click.ParamType[int]):
    name = "days"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"([1-9]\d{0,4})d?", str(value), re.ASCII)
        return int(found[1]) if found else self.fail(f"{str(value)!r} is no number of days, such as 90d", param, ctx)


@verb("prune", "matrix history prune --older-than 90d")
@click.option("--older-than", "days", type=_Days(), required=True, metavar="DAYS", help="Keep DAYS days, e.g. 90d.")
@database
def prune_command(days: int, url: str) -> None:
    """Replace the results of old runs by a summary for each test and month.

    The list of runs stays. Runs whose results a later run repeats count as that one.
    """
    store = open_chosen(url)
    from mlir_matrix.history.transfer import prune

    removed = prune(store, at(time.time_ns() - days * _DAY_S * 10**9), now())
    click.echo(f"{store.name}: {counted(removed, 'result')} removed")
