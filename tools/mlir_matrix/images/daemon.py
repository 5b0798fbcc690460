"""The daemon that keeps images and runs containers: Docker's, or Podman's that speaks its language.

The only module that imports Docker's library, and only when a daemon is asked for. Whatever a daemon cannot do is nobody's
verdict: an InfrastructureError in plain words.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlir_matrix.errors import InfrastructureError

if TYPE_CHECKING:
    from docker import DockerClient

#: Seconds that a daemon may take to answer; loading an image of 2 GB takes it some 20.
_PATIENCE_S = 600
_START = "start one (systemctl start docker, or podman system service), or say in DOCKER_HOST where one listens"


class Daemon:
    """A daemon that answered. ``client`` is Docker's own library; use it within :meth:`plainly`."""

    def __init__(self, client: DockerClient, address: str) -> None:
        self.client = client
        self.address = address
        # Its stubs know only some of it.
        self._api: Any = client.api

    def image(self, reference: str) -> dict[str, Any] | None:
        """What the daemon says of an image, by tag or ID; None where it has none. Nothing is ever pulled."""
        from docker.errors import ImageNotFound, NotFound

        with self.plainly(f"looking for the image {reference}"):
            try:
                found: dict[str, Any] = self._api.inspect_image(reference)
            except (ImageNotFound, NotFound):
                return None
        return found

    def images(self, label: str) -> list[dict[str, Any]]:
        """What the daemon says of all images that have a label."""
        with self.plainly("looking for images"):
            found: list[dict[str, Any]] = self._api.images(filters={"label": [label]})
        return found

    def save(self, reference: str) -> Iterator[bytes]:
        """An image as an archive, in pieces."""
        with self.plainly(f"reading the image {reference}"):
            yield from self._api.get_image(reference)

    def tag(self, reference: str, tag: str) -> None:
        """Call an image ``tag``, too."""
        name, _, short = tag.rpartition(":")
        with self.plainly(f"naming the image {tag}"):
            self._api.tag(reference, name, short)

    def push(self, tag: str) -> None:
        """Bring an image to the registry that its tag names."""
        name, _, short = tag.rpartition(":")
        self._watch(f"bringing {tag} to its registry", lambda: self._api.push(name, short, stream=True, decode=True))

    def pull(self, tag: str) -> None:
        """Take an image from the registry that its tag names."""
        name, _, short = tag.rpartition(":")
        self._watch(f"taking {tag} from its registry", lambda: self._api.pull(name, short, stream=True, decode=True))

    def load(self, archive: Iterable[bytes]) -> None:
        """Give it the images of a docker-archive. Raises InfrastructureError."""
        self._watch("loading images", lambda: self._api.load_image(iter(archive)))

    def _watch(self, doing: str, ask: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
        """Hear out what it tells while it does something. What is wrong comes in the middle, in one of two words."""
        with self.plainly(doing):
            for said in ask():
                if trouble := said.get("error") or said.get("message"):
                    raise _trouble(doing, str(trouble))

    @contextmanager
    def plainly(self, doing: str) -> Iterator[None]:
        """Make an InfrastructureError of whatever goes wrong with the daemon; ``doing`` says during what."""
        with _plainly(doing, self.address):
            yield

    def close(self) -> None:
        """Let go of its connections."""
        self.client.close()


def connect() -> Daemon:
    """The daemon of ``DOCKER_HOST``, else the one of this machine that answers. Raises InfrastructureError."""
    from docker import DockerClient

    named = os.environ.get("DOCKER_HOST", "")
    address = named or next(_sockets(), "")
    if not address:
        raise InfrastructureError(f"no container daemon runs here: {_START}")
    with _plainly("connecting", address):
        environment: Mapping[str, str] = {**os.environ, "DOCKER_HOST": address}
        client = DockerClient.from_env(version="auto", timeout=_PATIENCE_S, environment=environment)
        client.ping()
    return Daemon(client, address)


def _sockets() -> Iterator[str]:
    """Addresses of the sockets that are there, Docker's first."""
    own = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    places = ("/var/run/docker.sock", f"{own}/docker.sock", f"{own}/podman/podman.sock", "/run/podman/podman.sock")
    return (f"unix://{place}" for place in places if _is_there(place))


def _is_there(place: str) -> bool:
    try:
        return Path(place).is_socket()
    except OSError:
        return False


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
    number = next((code for code in _numbers(error)), 0)
    if number in (errno.EACCES, errno.EPERM):
        return InfrastructureError(
            f"the container daemon at {address} does not let this user in: join its group "
            "(usermod --append --groups docker USER, then log in again), or say in DOCKER_HOST where another listens"
        )
    if number in (errno.ENOENT, errno.ECONNREFUSED):
        return InfrastructureError(f"no container daemon answers at {address}: {_START}")
    return InfrastructureError(f"the container daemon at {address} is gone or does not make sense, {doing}: {error}")


def _numbers(error: BaseException | None) -> Iterator[int]:
    """The system's error numbers in an error and in what it came of."""
    while error is not None:
        for each in (error, *error.args):
            if isinstance(each, OSError) and each.errno:
                yield each.errno
        error = error.__cause__ or error.__context__


def _trouble(doing: str, said: str) -> InfrastructureError:
    if "no space left" in said.lower():
        return InfrastructureError(f"the container daemon's disk is full, {doing}: docker system df says what takes it")
    return InfrastructureError(f"the container daemon cannot do it, {doing}: {said.strip()}")
