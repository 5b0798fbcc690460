"""Images from a registry, where one is configured: taken where they are what they should be, and brought there when asked."""

from __future__ import annotations

from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.images.daemon import Daemon
from mlir_matrix.images.spec import Blueprint, tag_of
from mlir_matrix.images.verify import differences, doubts


def take(environment: ResolvedEnvironment, blueprint: Blueprint | None, registry: str, daemon: Daemon) -> str:
    """Pull the image of an environment. Gives why it is not used; nothing where it is here now.

    Without a ``blueprint``, since its packages are not here, the registry is believed in what it says that it is an image of.
    """
    tag = tag_of(environment)
    try:
        daemon.pull(f"{registry}/{tag}")
    except InfrastructureError as error:
        return str(error)
    said = daemon.image(f"{registry}/{tag}")
    if said is None:
        return f"the container daemon took {tag} from {registry} and does not have it"
    wrong = differences(blueprint, said) if blueprint else doubts(environment, said)
    if wrong:
        return f"{registry}/{tag} is not what the locks give: {wrong[0]}"
    daemon.tag(said["Id"], tag)
    return ""


def bring(tag: str, registry: str, daemon: Daemon) -> None:
    """Push an image. Raises InfrastructureError."""
    daemon.tag(tag, f"{registry}/{tag}")
    daemon.push(f"{registry}/{tag}")
