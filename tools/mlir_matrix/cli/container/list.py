"""``matrix container list``: list environments and their images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mlir_matrix.base.errors import UsageError
from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli import options
from mlir_matrix.cli.container.build import Row, image_lines, images_argument, images_document
from mlir_matrix.cli.output import show, warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.containers.daemon import Daemon, connect
from mlir_matrix.containers.images import chosen, reference_of, sealed
from mlir_matrix.containers.spec import LABEL_FORMAT, LABEL_NAME, draw, is_measured, tag_of
from mlir_matrix.containers.verify import differences, doubts
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session


@verb("list", "matrix container list", "matrix container list mlir llvm-releases --format json")
@images_argument
@options.output_format("table", "json")
@options.session(*options.releases)
def list_command(names: tuple[str, ...], form: str, current: Session) -> None:
    """List the images of environments, or of all environments that tests need.

    Without arguments, list what the suite smoke needs and every image on this machine. A state is present, absent or stale. An
    image is stale if its lock file or its contents changed.
    """
    daemon = connect()
    environments, reasons = chosen(current, names or (DEFAULT_SUITE,))
    ours = daemon.images(LABEL_FORMAT)
    if not names:
        known = {environment.name for environment in environments}
        more, _ = sealed(current, sorted({*_references(current, ours)} - known))
        environments += more
    rows = [_row(current, environment, daemon) for environment in environments]
    wanted = {row["environment"] for row in rows}
    rows += _stale(ours, {row["id"] for row in rows}, wanted if names else None)
    rows.sort(key=lambda row: (row["environment"], row["state"]))
    table = [Row(row["environment"], row["tag"], row["id"], row["bytes"], row["state"]) for row in rows]
    show(form, images_document(rows), image_lines(table), markup=True)
    warn(*reasons)


def _row(current: Session, environment: ResolvedEnvironment, daemon: Daemon) -> dict[str, Any]:
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


def _stale(ours: Sequence[dict[str, Any]], shown: set[str], wanted: set[str] | None) -> Iterator[dict[str, Any]]:
    """Yield images that matrix made for earlier lock files, of the ``wanted`` environments (default: of all)."""
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


def _references(current: Session, ours: Sequence[dict[str, Any]]) -> Iterator[str]:
    for said in ours:
        try:
            yield reference_of(current, str(said["Labels"].get(LABEL_NAME, "")))
        except UsageError:
            # The environment is of another catalog, or was removed.
            continue
