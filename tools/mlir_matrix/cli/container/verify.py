"""``matrix container verify``: compare images with their lock files."""

from __future__ import annotations

from pathlib import Path

import click

from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli.container.build import images_argument
from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import catalog_option, pin_option, session
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.images.daemon import Daemon, connect
from mlir_matrix.images.images import chosen
from mlir_matrix.images.spec import draw, tag_of
from mlir_matrix.images.verify import differences
from mlir_matrix.session import Session
from mlir_matrix.text import counted


@click.command(
    "verify",
    cls=Verb,
    examples=("matrix container verify", "matrix container verify mlir"),
)
@images_argument
@pin_option
@catalog_option
def verify(names: tuple[str, ...], pins: tuple[str, ...], catalogs: tuple[Path, ...]) -> int:
    """Compare images with what their lock files give, by reading every byte of the installed packages.

    Without arguments, verify what the suite smoke needs. The layers and files that differ are listed.

    Exit code: 0 all images are as their lock files say; 3 an image is absent or differs.
    """
    current = session(catalogs, pins=pins)
    environments, reasons = chosen(current, names or (DEFAULT_SUITE,))
    daemon = connect()
    wrong = 0
    for environment in environments:
        found = _wrong(current, environment, daemon)
        wrong += bool(found)
        for number, line in enumerate(found):
            click.echo(f"{tag_of(environment)}: {line}" if number == 0 else f"  {line}")
    for reason in reasons:
        click.echo(f"matrix: {reason}", err=True)
    click.echo(f"{counted(len(environments), 'image')} compared; {wrong} not as the locks say")
    if wrong:
        click.echo("matrix: matrix container build makes them again", err=True)
    return 3 if wrong or reasons else 0


def _wrong(current: Session, environment: ResolvedEnvironment, daemon: Daemon) -> list[str]:
    """What is wrong with the image of an environment, first what it comes to."""
    said = daemon.image(tag_of(environment))
    if said is None:
        return ["is absent"]
    missing = environment.missing(current.home.packages)
    if missing:
        labels = ", ".join(unit.label for unit in missing)
        return [f"cannot be compared: {labels} is not here; matrix container build fetches it"]
    image_spec = draw(environment, current.catalog.containers, current.home, anew=True)
    found = differences(image_spec, said)
    if not found:
        return []
    from mlir_matrix.images.verify import changed_files  # reads the whole image

    layers = said["RootFS"].get("Layers") or []
    if layers != image_spec.diff_ids:
        found += changed_files(image_spec, layers, daemon.save(said["Id"]), current.home)
    return ["is another image than the locks give", *found]
