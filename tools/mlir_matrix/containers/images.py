"""Images of environments: which the daemon has, and making those that it has not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from mlir_matrix.catalog.container_models import Containers
from mlir_matrix.containers.archive import archive
from mlir_matrix.containers.blueprint import Blueprint, draw
from mlir_matrix.containers.compare import differences
from mlir_matrix.containers.daemon import Daemon
from mlir_matrix.containers.layers import PACKAGES
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.unit import Listener, PackageProgress
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.home import Home

__all__ = ["PACKAGES", "Image", "ensure", "find", "make"]


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
    by_digest = {environment.digest: environment for environment in environments}
    drawn = [draw(environment, settings or Containers(), home) for environment in by_digest.values()]
    found = {blueprint.environment.digest: find(blueprint, daemon) for blueprint in drawn}
    absent = [blueprint for blueprint in drawn if found[blueprint.environment.digest] is None]
    if absent:
        make(absent, home=home, daemon=daemon, listener=listener)
        found |= {blueprint.environment.digest: _made(blueprint, daemon) for blueprint in absent}
    return {digest: image for digest, image in found.items() if image}


def find(blueprint: Blueprint, daemon: Daemon) -> Image | None:
    """The daemon's image, where it is what the blueprint says."""
    said = daemon.image(blueprint.tag)
    if said is None or differences(blueprint, said):
        return None
    return Image(id=said["Id"], tag=blueprint.tag, environment_digest=blueprint.environment.digest)


def make(blueprints: Sequence[Blueprint], *, home: Home, daemon: Daemon, listener: Listener) -> None:
    """Load images, in one archive. Raises InfrastructureError."""
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
