"""Images of environments: which there are, and making those that are not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from mlir_matrix.containers.daemon import Daemon
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.unit import Listener
from mlir_matrix.home import Home

#: Where an image has what ``Home.packages`` has here: the same folders, by the same names.
PACKAGES = PurePosixPath("/matrix/packages")


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image that the daemon has. ``id`` is what to run; ``tag`` is for people."""

    id: str
    tag: str
    environment_digest: str
    packages: PurePosixPath = PACKAGES


def ensure(
    environments: Iterable[ResolvedEnvironment], *, home: Home, daemon: Daemon, listener: Listener
) -> dict[str, Image]:
    """Images of these sealed environments, by their digests; what is absent is made and loaded.

    All packages must be in ``home.packages``. ``listener`` hears of bytes. Raises InfrastructureError.
    """
    raise NotImplementedError
