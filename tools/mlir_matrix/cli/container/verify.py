"""``matrix container verify``: compare images with their lock files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlir_matrix.base.text import counted
from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli import options
from mlir_matrix.cli.container.build import images_argument
from mlir_matrix.cli.output import show, warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.containers.daemon import Daemon, connect
from mlir_matrix.containers.images import chosen
from mlir_matrix.containers.spec import draw, tag_of
from mlir_matrix.containers.verify import differences
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session


@verb("verify", "matrix container verify", "matrix container verify mlir --format json")
@images_argument
@options.output_format("text", "json")
@options.session(*options.releases)
def verify_command(names: tuple[str, ...], form: str, current: Session) -> int:
    """Compare images with what their lock files give, by reading every byte of the installed packages.

    Without arguments, verify what the suite smoke needs. The layers and files that differ are listed.

    Exit code: 0 no image differs; 3 an image is absent or differs.
    """
    environments, reasons = chosen(current, names or (DEFAULT_SUITE,))
    daemon = connect()
    images = [
        {"environment": each.name, "tag": tag_of(each), "differences": _wrong(current, each, daemon)}
        for each in environments
    ]
    wrong = sum(bool(image["differences"]) for image in images)
    summary = {"images": len(images), "different": wrong}
    document = {"schema": "mlir-matrix/verified-containers/v1", "summary": summary, "images": images}
    show(form, document, _lines(images, wrong))
    warn(*reasons)
    if wrong:
        warn("matrix container build builds them again")
    return 3 if wrong or reasons else 0


def _lines(images: Sequence[Mapping[str, Any]], wrong: int) -> Iterator[str]:
    for image in images:
        for number, line in enumerate(image["differences"]):
            yield f"{image['tag']}: {line}" if number == 0 else f"  {line}"
    yield f"{counted(len(images), 'image')} compared; {wrong} differ from their lock files"


def _wrong(current: Session, environment: ResolvedEnvironment, daemon: Daemon) -> list[str]:
    """Return the differences of an image, below a summary; nothing without differences."""
    said = daemon.image(tag_of(environment))
    if said is None:
        return ["is absent"]
    missing = environment.missing(current.home.packages)
    if missing:
        labels = ", ".join(unit.label for unit in missing)
        return [f"cannot be compared: {labels} is not installed; matrix container build installs it"]
    image_spec = draw(environment, current.catalog.containers, current.home, anew=True)
    found = differences(image_spec, said)
    if not found:
        return []
    from mlir_matrix.containers.verify import changed_files  # reads the whole image

    layers = said["RootFS"].get("Layers") or []
    if layers != image_spec.diff_ids:
        found += changed_files(image_spec, layers, daemon.save(said["Id"]), current.home)
    return ["differs from its lock files", *found]
