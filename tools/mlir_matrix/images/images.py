"""Images of environments: which the daemon has, and making those that it has not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from mlir_matrix.catalog.models.containers import Containers
from mlir_matrix.environments.package import Listener, Package, PackageProgress
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.images.archive import archive
from mlir_matrix.images.daemon import Daemon
from mlir_matrix.images.layers import PACKAGES, known, measure
from mlir_matrix.images.spec import Blueprint, draw
from mlir_matrix.images.verify import differences
from mlir_matrix.paths import Home
from mlir_matrix.text import counted

__all__ = ["PACKAGES", "Image", "ensure", "find"]


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image that the daemon has. ``id`` is what to run; ``tag`` is for people."""

    id: str
    tag: str
    environment_digest: str
    packages: PurePosixPath = PACKAGES


def ensure(
    environments: Iterable[ResolvedEnvironment],
    *,
    home: Home,
    daemon: Daemon,
    listener: Listener,
    settings: Containers | None = None,
) -> dict[str, Image]:
    """Images of these sealed environments, by their digests; what is absent is made and loaded.

    All packages must be in ``home.packages``. ``listener`` hears how far it is. Raises InfrastructureError.
    """
    # Two that are called otherwise may be made of the same.
    wanted = {environment.name: environment for environment in environments}.values()
    _measure(wanted, home, listener)
    drawn = [draw(environment, settings or Containers(), home) for environment in wanted]
    images = [find(blueprint, daemon) for blueprint in drawn]
    absent = [blueprint for blueprint, image in zip(drawn, images, strict=True) if image is None]
    if absent:
        _make(absent, home=home, daemon=daemon, listener=listener)
        images += [_made(blueprint, daemon) for blueprint in absent]
    return {image.environment_digest: image for image in images if image}


def find(blueprint: Blueprint, daemon: Daemon) -> Image | None:
    """The daemon's image, where it is what the blueprint says."""
    said = daemon.image(blueprint.tag)
    if said is None or differences(blueprint, said):
        return None
    return Image(id=said["Id"], tag=blueprint.tag, environment_digest=blueprint.environment.digest)


def _measure(environments: Iterable[ResolvedEnvironment], home: Home, listener: Listener) -> None:
    """Find out what layers come to that nobody knows yet: a second for a gigabyte."""
    todo: dict[str, Package] = {}
    for environment in environments:
        units = ((unit, unit.folder_for(environment.interpreter.tag)) for unit in environment.units)
        todo |= {folder: unit for unit, folder in units if folder and known(unit, folder, home) is None}
    label = f"digests of {counted(len(todo), 'layer')}"
    for number, (folder, unit) in enumerate(todo.items()):
        listener(PackageProgress(package=label, received=number, total=len(todo), building=True))
        measure(unit, folder, home)
    if todo:
        listener(PackageProgress(package=label, done=True))


def _make(blueprints: Sequence[Blueprint], *, home: Home, daemon: Daemon, listener: Listener) -> None:
    names = ", ".join(blueprint.environment.name for blueprint in blueprints)
    label = f"image of {names}" if len(blueprints) == 1 else f"images of {names}"

    def tell(done: int, total: int) -> None:
        listener(PackageProgress(package=label, received=done, total=total, building=True))

    daemon.load(archive(blueprints, home, tell))
    listener(PackageProgress(package=label, done=True))


def _made(blueprint: Blueprint, daemon: Daemon) -> Image:
    image = find(blueprint, daemon)
    if image is None:
        raise InfrastructureError(f"the container daemon was given {blueprint.tag} and has another image, or none")
    return image
