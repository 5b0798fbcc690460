"""The container daemon: Docker, or Podman with Docker's API.

The only module that imports Docker's library, and only when a daemon is used. Every failure of a daemon is an
InfrastructureError.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlir_matrix.base.errors import InfrastructureError

if TYPE_CHECKING:
    from docker import DockerClient

#: Loading an image of 2 GB takes some 20 s.
_TIMEOUT_S = 600
_START = "start one (systemctl start docker, or podman system service), or set DOCKER_HOST to the address of one"


class Daemon:
    """A connected daemon. ``client`` is Docker's library; use it within :meth:`plainly`."""

    def __init__(self, client: DockerClient, address: str) -> None:
        self.client = client
        self.address = address
        # The library's stubs are incomplete.
        self._api: Any = client.api

    def image(self, reference: str) -> dict[str, Any] | None:
        """Return the description of an image by tag or ID, or None. Nothing is pulled."""
        from docker.errors import ImageNotFound, NotFound

        with self.plainly(f"looking for the image {reference}"):
            try:
                found: dict[str, Any] = self._api.inspect_image(reference)
            except (ImageNotFound, NotFound):
                return None
        return found

    def images(self, label: str) -> list[dict[str, Any]]:
        """Return the descriptions of all images with a label."""
        with self.plainly("looking for images"):
            found: list[dict[str, Any]] = self._api.images(filters={"label": [label]})
        return found

    def save(self, reference: str) -> Iterator[bytes]:
        """Yield an image as an archive, in pieces."""
        with self.plainly(f"reading the image {reference}"):
            yield from self._api.get_image(reference)

    def tag(self, reference: str, tag: str) -> None:
        name, _, short = tag.rpartition(":")
        with self.plainly(f"naming the image {tag}"):
            self._api.tag(reference, name, short)

    def push(self, tag: str) -> None:
        """Push an image to the registry of its tag."""
        name, _, short = tag.rpartition(":")
        self._watch(f"pushing {tag}", lambda: self._api.push(name, short, stream=True, decode=True))

    def pull(self, tag: str) -> None:
        """Pull an image from the registry of its tag."""
        name, _, short = tag.rpartition(":")
        self._watch(f"pulling {tag}", lambda: self._api.pull(name, short, stream=True, decode=True))

    def load(self, archive: Iterable[bytes]) -> None:
        """Load the images of a docker-archive."""
        self._watch("loading images", lambda: self._api.load_image(iter(archive)))

    def _watch(self, doing: str, ask: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
        """Read the progress of a request. Errors come in the middle, under one of two keys."""
        with self.plainly(doing):
            for event in ask():
                if message := event.get("error") or event.get("message"):
                    raise _trouble(doing, str(message))

    def plainly(self, doing: str) -> AbstractContextManager[None]:
        """Turn errors of the daemon into an InfrastructureError; ``doing`` names the operation."""
        return _plainly(doing, self.address)

    def close(self) -> None:
        self.client.close()


def connect() -> Daemon:
    """Connect to the daemon of ``DOCKER_HOST``, else to a local one. Raise InfrastructureError."""
    address = os.environ.get("DOCKER_HOST", "") or next(_sockets(), "")
    if not address:
        raise InfrastructureError(f"no container daemon is running; {_START}")
    from docker import DockerClient

    with _plainly("connecting", address):
        environment: Mapping[str, str] = {**os.environ, "DOCKER_HOST": address}
        client = DockerClient.from_env(version="auto", timeout=_TIMEOUT_S, environment=environment)
        client.ping()
    return Daemon(client, address)


def _sockets() -> Iterator[str]:
    """Yield the addresses of existing sockets, Docker's first."""
    own = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    places = ("/var/run/docker.sock", f"{own}/docker.sock", f"{own}/podman/podman.sock", "/run/podman/podman.sock")
    for place in places:
        with suppress(OSError):
            if Path(place).is_socket():
                yield f"unix://{place}"


@contextmanager
def _plainly(doing: str, address: str) -> Iterator[None]:
    from docker.errors import DockerException
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (DockerException, RequestException, HTTPError) as error:
        raise _explained(error, doing, address) from None


def _explained(error: Exception, doing: str, address: str) -> InfrastructureError:
    from docker.errors import APIError

    if isinstance(error, APIError) and error.explanation:
        return _trouble(doing, str(error.explanation))
    number = next(_numbers(error), 0)
    if number in (errno.EACCES, errno.EPERM):
        return InfrastructureError(
            f"the container daemon at {address} refuses this user; join its group "
            "(usermod --append --groups docker USER, then log in again), or set DOCKER_HOST to another daemon"
        )
    if number in (errno.ENOENT, errno.ECONNREFUSED):
        return InfrastructureError(f"no container daemon answers at {address}; {_START}")
    return InfrastructureError(f"the container daemon at {address} does not answer as expected, {doing}: {error}")


def _numbers(error: BaseException | None) -> Iterator[int]:
    """Yield the error numbers of the system in an error and its causes."""
    while error is not None:
        for each in (error, *error.args):
            if isinstance(each, OSError) and each.errno:
                yield each.errno
        error = error.__cause__ or error.__context__


def _trouble(doing: str, message: str) -> InfrastructureError:
    if "no space left" in message.lower():
        return InfrastructureError(
            f"the container daemon's disk is full, {doing}; for the largest objects, run: docker system df"
        )
    return InfrastructureError(f"the container daemon reports an error, {doing}: {message.strip()}")
