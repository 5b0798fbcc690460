"""Read files of a worker, up to a size, into memory. The master never unpacks or writes them."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import Any

from buildbot.process import remotecommand
from buildbot.process.buildstep import BuildStep
from buildbot.worker.protocols.base import FileWriterImpl

#: Bytes of a block. Each block waits for an answer, and the protocol allows at most 640 KiB.
_BLOCK = 512 << 10


class _Buffer(FileWriterImpl):  # type: ignore[misc]
    """Collects data from a worker, up to a number of bytes."""

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self.whole = True
        self._most = most

    def remote_write(self, data: bytes | str) -> None:
        room = self._most - len(self.data)
        data = data.encode() if isinstance(data, str) else data
        self.whole = self.whole and len(data) <= room
        self.data += data[:room]

    def remote_close(self) -> None:
        """Do nothing: no file is open."""

    def remote_unpack(self) -> None:
        """Do nothing: archives are not unpacked."""


async def remove(step: BuildStep, path: str) -> None:
    """Remove a file of the worker, if it is there."""
    await step.runCommand(remotecommand.RemoteCommand("rmfile", {"path": path}, decodeRC={None: 0, 0: 0}))


async def read(step: BuildStep, path: str, most: int) -> bytes | None:
    """Return the bytes of a file of the worker; None if it does not exist or has more bytes."""
    return await _transfer(step, "uploadFile", {"workersrc": path}, most)


async def read_folder(step: BuildStep, path: str, most: int) -> bytes | None:
    """Return a folder of the worker as a compressed tar archive; None if it does not exist or has more bytes."""
    return await _transfer(step, "uploadDirectory", {"workersrc": path, "compress": "gz"}, most)


async def _transfer(step: BuildStep, command: str, args: dict[str, Any], most: int) -> bytes | None:
    buffer = _Buffer(most)
    # One byte more, to distinguish a longer file from one of this length.
    common = {"workdir": step.workdir, "writer": buffer, "maxsize": most + 1, "blocksize": _BLOCK}
    remote = remotecommand.RemoteCommand(command, {**args, **common}, decodeRC={None: 0, 0: 0})
    await step.runCommand(remote)
    # A stopped step runs no command.
    return None if step.stopped or remote.didFail() or not buffer.whole else bytes(buffer.data)


def members(archive: bytes, ending: str, most: int) -> dict[str, bytes]:
    """Return top-level files of a compressed archive whose names end with a suffix, at most ``most`` bytes in all."""
    found: dict[str, bytes] = {}
    left = most
    try:
        # Limit the bytes to read, because headers in the archive may be false.
        with gzip.open(io.BytesIO(archive)) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if not (member.isfile() and name.endswith(ending) and "/" not in name):
                    continue
                if member.size > left:
                    break
                left -= member.size
                file = tar.extractfile(member)
                found[name] = file.read() if file else b""
    except (tarfile.TarError, OSError, EOFError, ValueError):
        pass
    return found
