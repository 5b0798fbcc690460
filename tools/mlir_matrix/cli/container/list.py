"""``matrix container list``: list environments and their images."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli.container.build import images_argument, short_id
from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import catalog_option, format_option, pin_option, session
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import UsageError
from mlir_matrix.images.daemon import Daemon, connect
from mlir_matrix.images.images import chosen, reference_of, sealed
from mlir_matrix.images.spec import LABEL_FORMAT, LABEL_NAME, draw, is_measured, tag_of
from mlir_matrix.images.verify import differences, doubts
from mlir_matrix.report.layout import columns, print_lines, stdout_console
from mlir_matrix.session import Session
from mlir_matrix.text import megabytes


@click.command(
    "list",
    cls=Verb,
    examples=("matrix container list", "matrix container list mlir llvm-releases --format json"),
)
@images_argument
@pin_option
@format_option("table", "json")
@catalog_option
def list_images(names: tuple[str, ...], pins: tuple[str, ...], form: str, catalogs: tuple[Path, ...]) -> None:
    """List the images of environments, or of all environments that tests need.

    Without arguments, list what the suite smoke needs and every image on this machine. A state is present, absent or stale. An
    image is stale if its lock file or its contents changed.
    """
    current = session(catalogs, pins=pins)
    daemon = connect()
    environments, reasons = chosen(current, names or (DEFAULT_SUITE,))
    ours = daemon.images(LABEL_FORMAT)
    if not names:
        known = {environment.name for environment in environments}
        more, _ = sealed(current, sorted({*_named(current, ours)} - known))
        environments += more
    rows = [_row(current, environment, daemon) for environment in environments]
    wanted = {row["environment"] for row in rows}
    rows += _others(ours, {row["id"] for row in rows}, wanted if names else None)
    rows.sort(key=lambda row: (row["environment"], row["state"]))
    if form == "json":
        click.echo(json.dumps({"schema": "mlir-matrix/containers/v1", "images": rows}, indent=1))
    else:
        lines = [
            (
                escape(row["environment"]),
                escape(row["tag"]),
                short_id(row["id"]),
                megabytes(row["bytes"]) if row["bytes"] else "",
                row["state"],
            )
            for row in rows
        ]
        print_lines(stdout_console(), columns(("environment", "image", "ID", "size", ""), lines, right=(3,)))
    for reason in reasons:
        click.echo(f"matrix: {reason}", err=True)


def _row(current: Session, environment: ResolvedEnvironment, daemon: Daemon) -> dict[str, Any]:
    """An environment's image, be it there or not."""
    row: dict[str, Any] = {
        "environment": environment.name,
        "digest": environment.digest,
        "tag": tag_of(environment),
        "id": "",
        "bytes": 0,
        "state": "absent",
    }
    image_spec = None
    if is_measured(environment, current.home):
        image_spec = draw(environment, current.catalog.containers, current.home)
        row |= {"id": image_spec.id, "bytes": image_spec.size}
    said = daemon.image(row["tag"])
    if said:
        stale = differences(image_spec, said) if image_spec else doubts(environment, said)
        row |= {"id": said["Id"], "bytes": row["bytes"] or said["Size"], "state": "stale" if stale else "present"}
    return row


def _others(ours: Sequence[dict[str, Any]], shown: set[str], wanted: set[str] | None) -> Iterator[dict[str, Any]]:
    """Images of ours that are of no environment as it is now; ``wanted``: only those that were of these."""
    for said in ours:
        name = str(said["Labels"].get(LABEL_NAME, ""))
        if said["Id"] not in shown and (wanted is None or name in wanted):
            tags = [tag for tag in said.get("RepoTags") or () if tag != "<none>:<none>"]
            yield {
                "environment": name,
                "digest": "",
                "tag": tags[0] if tags else "",
                "id": said["Id"],
                "bytes": said["Size"],
                "state": "stale",
            }


def _named(current: Session, ours: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Environments that there are images of."""
    for said in ours:
        try:
            yield reference_of(current, str(said["Labels"].get(LABEL_NAME, "")))
        except UsageError:
            # Of another catalog, or of one that is no more.
            continue
