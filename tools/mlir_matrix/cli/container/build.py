"""``matrix container build``: build missing images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import click
from rich.markup import escape

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.events import PackageProgress, Tick
from mlir_matrix.base.layout import columns
from mlir_matrix.base.text import megabytes
from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli import options
from mlir_matrix.cli.output import note, show, warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.containers.daemon import Daemon, connect
from mlir_matrix.containers.images import chosen, ensure, find, pull
from mlir_matrix.containers.images import push as push_image
from mlir_matrix.containers.spec import can_draw, draw, tag_of
from mlir_matrix.environments.installer import install_missing
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session, remember
from mlir_matrix.execute.progress import shown

images_argument = click.argument("names", nargs=-1, metavar="[ENVIRONMENT[@PINS]|SUITE|GLOB]...")


@verb(
    "build",
    "matrix container build",
    "matrix container build mlir 'torch*' --format json",
    "matrix container build mlir@llvm=19",
    "matrix container build llvm-releases --push",
)
@images_argument
@click.option("--push", is_flag=True, help="Also push the images to the registry in containers/images.yaml.")
@options.quiet
@options.output_format("table", "json")
@options.session(*options.releases)
def build_command(names: tuple[str, ...], push: bool, quiet: bool, form: str, current: Session) -> int:
    """Build the images of environments, or of all environments that tests need.

    Without arguments, build what the suite smoke needs. An image contains only packages from lock files; missing packages are
    downloaded. No base image is pulled. An image that is already correct is kept. If containers/images.yaml names a registry,
    images that it has are pulled from there.
    """
    registry = current.catalog.containers.registry
    if push and not registry:
        raise UsageError("--push: no registry is set; add «registry: HOST:PORT/FOLDER» to containers/images.yaml")
    environments, errors = chosen(current, names or (DEFAULT_SUITE,))
    daemon, packages = connect(), current.home.packages
    present = {each.name: _present(current, each, daemon) or _pulled(current, each, daemon) for each in environments}
    absent = [each for each in environments if present[each.name] is None]
    if absent:
        remember(current.home, current.catalog.roots)
    errors += install_missing(current, absent, partial(shown, quiet=quiet), note)
    complete = [each for each in absent if not each.missing(packages)]
    if complete:
        with shown(quiet=quiet) as listener:

            def tell(progress: PackageProgress) -> None:
                listener(progress)
                listener(Tick())

            ensure(complete, home=current.home, daemon=daemon, listener=tell, settings=current.catalog.containers)
    rows = [row for row in (*present.values(), *(_present(current, each, daemon, "made") for each in complete)) if row]
    warn(*errors)
    digests = {each.name: each.digest for each in environments}
    images = [{**row._asdict(), "digest": digests[row.environment]} for row in sorted(rows)]
    show(form, images_document(images), image_lines(rows), markup=True)
    for row in rows if push and registry else ():
        push_image(row.tag, str(registry), daemon)
        note(f"{row.tag} is pushed to {registry}")
    return 3 if errors else 0


class Row(NamedTuple):
    """An image in a table."""

    environment: str
    tag: str
    id: str
    bytes: int
    state: str


def images_document(images: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the document of images that were built or found."""
    summary = {"images": len(images), "by_state": dict(sorted(Counter(image["state"] for image in images).items()))}
    return {"schema": "mlir-matrix/container-images/v1", "summary": summary, "images": images}


def image_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield a table of images; nothing without images."""
    cells = [
        (
            escape(row.environment),
            escape(row.tag),
            row.id.removeprefix("sha256:")[:12],
            megabytes(row.bytes) if row.bytes else "",
            row.state,
        )
        for row in sorted(rows)
    ]
    if cells:
        yield from columns(("environment", "image", "ID", "size", ""), cells, right=(3,))


def _present(current: Session, environment: ResolvedEnvironment, daemon: Daemon, state: str = "present") -> Row | None:
    if not can_draw(environment, current.home):
        return None
    spec = draw(environment, current.catalog.containers, current.home)
    image = find(spec, daemon)
    return Row(environment.name, image.tag, image.id, spec.size, state) if image else None


def _pulled(current: Session, environment: ResolvedEnvironment, daemon: Daemon) -> Row | None:
    settings, home, tag = current.catalog.containers, current.home, tag_of(environment)
    if settings.registry is None:
        return None
    spec = draw(environment, settings, home) if can_draw(environment, home) else None
    why_not = pull(environment, spec, settings.registry, daemon)
    if why_not:
        warn(f"the image of {environment.name} is built here: {why_not}")
    found = None if why_not else daemon.image(tag)
    return Row(environment.name, tag, found["Id"], found["Size"], "pulled") if found else None
