"""Images of environments: find them in the daemon, make the others, pull from and push to a registry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from mlir_matrix.catalog.models.toolchains import Containers
from mlir_matrix.environments.package import Package
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.events import PackageListener, PackageProgress
from mlir_matrix.images.archive import archive
from mlir_matrix.images.daemon import Daemon
from mlir_matrix.images.layers import PACKAGES, known, measure
from mlir_matrix.images.spec import ImageSpec, draw, tag_of
from mlir_matrix.images.verify import differences, doubts
from mlir_matrix.paths import Home
from mlir_matrix.text import counted

__all__ = ["PACKAGES", "Image", "ensure", "find", "pull", "push"]


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image of the daemon. ``id`` is what to run; ``tag`` is for people."""

    id: str
    tag: str
    environment_digest: str
    packages: PurePosixPath = PACKAGES


def ensure(
    environments: Iterable[ResolvedEnvironment],
    *,
    home: Home,
    daemon: Daemon,
    listener: PackageListener,
    settings: Containers | None = None,
) -> dict[str, Image]:
    """Return images of these sealed environments by digest; absent ones are made and loaded.

    All packages must be in ``home.packages``. Raise InfrastructureError.
    """
    # Environments with different names may have the same digest.
    wanted = {environment.name: environment for environment in environments}.values()
    _measure(wanted, home, listener)
    drawn = [draw(environment, settings or Containers(), home) for environment in wanted]
    images = [find(spec, daemon) for spec in drawn]
    absent = [spec for spec, image in zip(drawn, images, strict=True) if image is None]
    if absent:
        _make(absent, home=home, daemon=daemon, listener=listener)
        images += [_made(spec, daemon) for spec in absent]
    return {image.environment_digest: image for image in images if image}


def find(spec: ImageSpec, daemon: Daemon) -> Image | None:
    """Return the daemon's image if it is what the spec says, else None."""
    said = daemon.image(spec.tag)
    if said is None or differences(spec, said):
        return None
    return Image(id=said["Id"], tag=spec.tag, environment_digest=spec.environment.digest)


def _measure(environments: Iterable[ResolvedEnvironment], home: Home, listener: PackageListener) -> None:
    """Compute unknown digests of layers; a gigabyte takes a second."""
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


def _make(specs: Sequence[ImageSpec], *, home: Home, daemon: Daemon, listener: PackageListener) -> None:
    names = ", ".join(spec.environment.name for spec in specs)
    label = f"image of {names}" if len(specs) == 1 else f"images of {names}"

    def tell(done: int, total: int) -> None:
        listener(PackageProgress(package=label, received=done, total=total, building=True))

    daemon.load(archive(specs, home, tell))
    listener(PackageProgress(package=label, done=True))


def _made(spec: ImageSpec, daemon: Daemon) -> Image:
    image = find(spec, daemon)
    if image is None:
        raise InfrastructureError(f"the container daemon loaded {spec.tag} but has another image, or none")
    return image


def pull(environment: ResolvedEnvironment, spec: ImageSpec | None, registry: str, daemon: Daemon) -> str:
    """Pull the image of an environment. Return why it is not used, or an empty string.

    Without a ``spec``, because packages are not installed, only the labels of the image are checked.
    """
    tag = tag_of(environment)
    try:
        daemon.pull(f"{registry}/{tag}")
    except InfrastructureError as error:
        return str(error)
    said = daemon.image(f"{registry}/{tag}")
    if said is None:
        return f"the container daemon pulled {tag} from {registry} but does not have it"
    wrong = differences(spec, said) if spec else doubts(environment, said)
    if wrong:
        return f"{registry}/{tag} is not what the locks give: {wrong[0]}"
    daemon.tag(said["Id"], tag)
    return ""


def push(tag: str, registry: str, daemon: Daemon) -> None:
    """Push an image. Raises InfrastructureError."""
    daemon.tag(tag, f"{registry}/{tag}")
    daemon.push(f"{registry}/{tag}")
