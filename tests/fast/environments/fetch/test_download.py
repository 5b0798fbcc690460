"""Download from local servers that truncate, send wrong bytes, stall and refuse."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import Cancelled
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.fetch.download import AccessError, NotFoundError, WantedFile, adopt, download
from mlir_matrix.environments.fetch.http import Routes, Transport
from support.loopback import Behaviour, serve
from support.machine import start_python

DATA = bytes(range(256)) * 4000


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Behaviour]:
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "f").write_bytes(DATA)
    with serve(tmp_path / "www") as behaviour:
        yield behaviour


@pytest.fixture
def store(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path / "artifacts")


def wanted(*addresses: str, data: bytes = DATA, size: int | None = len(DATA)) -> WantedFile:
    return WantedFile(name="thing 1.0", sha256=hashlib.sha256(data).hexdigest(), size=size, addresses=addresses)


def get(wanted: WantedFile, store: Artifacts) -> Path:
    return download(wanted, store, pause=0.01)


def left(store: Artifacts) -> list[str]:
    return sorted(path.name[64:] for path in store.folder.iterdir())


@pytest.mark.parametrize("size", [len(DATA), None])
@pytest.mark.parametrize("length", [True, False])
def test_download_stores_the_file_once(server: Behaviour, store: Artifacts, size: int | None, length: bool) -> None:
    """Once; whether sizes are known or not."""
    server.length = length
    seen: list[tuple[int, int]] = []
    thing = wanted(f"{server.address}/f", size=size)
    path = download(thing, store, progress=lambda *progress: seen.append(progress))
    assert path.read_bytes() == DATA
    assert path == store.find(thing.sha256)
    assert seen[-1] == (len(DATA), len(DATA) if size or length else 0)
    assert [received for received, _ in seen] == sorted(received for received, _ in seen)
    assert get(thing, store) == path
    assert len(server.requests) == 1
    assert left(store) == [""]


def test_connections_are_kept(server: Behaviour, store: Artifacts, tmp_path: Path) -> None:
    transport = Transport()
    for number in range(5):
        (tmp_path / "www" / str(number)).write_bytes(b"%d" % number)
        thing = wanted(f"{server.address}/{number}", data=b"%d" % number, size=1)
        download(thing, store, transport=transport)
    transport.close()
    assert len(server.requests) == 5
    assert len(server.connections) == 1


def test_a_kept_connection_that_ended(server: Behaviour, store: Artifacts, tmp_path: Path) -> None:
    """Is no failure; and the rest of an answer that was not wanted is not taken for the next one."""
    transport = Transport()
    (tmp_path / "www" / "g").write_bytes(b"g")
    with pytest.raises(InfrastructureError, match="the file has 1024000 bytes, expected 7"):
        download(wanted(f"{server.address}/f", size=7), store, transport=transport)
    server.cut = [0]
    download(wanted(f"{server.address}/g", data=b"g", size=1), store, transport=transport, pause=0.01)
    server.length = False
    assert download(wanted(f"{server.address}/f"), store, transport=transport).read_bytes() == DATA
    transport.close()


def test_download_resumes_after_each_interruption(server: Behaviour, store: Artifacts) -> None:
    """Resume after each interruption."""
    server.cut = [300_000, 300_000]
    assert get(wanted(f"{server.address}/f"), store).read_bytes() == DATA
    assert [given for _, given in server.requests] == ["", "bytes=300000-", "bytes=600000-"]


def test_failed_download_keeps_the_received_part(server: Behaviour, store: Artifacts) -> None:
    """What was received stays for the next time."""
    server.cut = [100_000, 0, 0]
    thing = wanted(f"{server.address}/f")
    with pytest.raises(InfrastructureError, match=r"^thing 1\.0 cannot be downloaded: .*ended after 100000") as caught:
        get(thing, store)
    assert server.address in str(caught.value)
    assert not isinstance(caught.value, NotFoundError)
    assert store.part(thing.sha256).stat().st_size == 100_000
    assert get(thing, store).read_bytes() == DATA
    assert server.requests[-1] == ("/f", "bytes=100000-")


def test_a_server_without_ranges(server: Behaviour, store: Artifacts) -> None:
    """It is started anew."""
    server.ranges = False
    server.cut = [300_000]
    assert get(wanted(f"{server.address}/f"), store).read_bytes() == DATA
    assert len(server.requests) == 2


@pytest.mark.parametrize("there", [b"other" * 1000, b"x" * (len(DATA) + 5), b"x" * len(DATA), DATA])
def test_what_was_left_is_something_else(server: Behaviour, store: Artifacts, there: bytes) -> None:
    """Then it is fetched from the start; where it is all there, nothing is asked for."""
    thing = wanted(f"{server.address}/f")
    store.folder.mkdir()
    store.part(thing.sha256).write_bytes(there)
    assert get(thing, store).read_bytes() == DATA
    assert len(server.requests) == {DATA: 0, b"other" * 1000: 2}.get(there, 1)


def test_part_longer_than_the_file_is_downloaded_again(server: Behaviour, store: Artifacts) -> None:
    """The part is longer than the server's file, whose size the lock file does not state."""
    thing = wanted(f"{server.address}/f", size=None)
    store.folder.mkdir()
    store.part(thing.sha256).write_bytes(DATA + b"more")
    assert get(thing, store).read_bytes() == DATA


def test_file_with_another_hash_is_refused(server: Behaviour, store: Artifacts) -> None:
    """The message has both; nothing is kept; asking again would not change it."""
    thing = wanted(f"{server.address}/f", data=b"another")
    thing = WantedFile(name=thing.name, sha256=thing.sha256, size=len(DATA), addresses=thing.addresses)
    with pytest.raises(InfrastructureError, match=r"thing 1\.0 .*another hash than in the lock file") as caught:
        get(thing, store)
    assert thing.sha256 in str(caught.value)
    assert hashlib.sha256(DATA).hexdigest() in str(caught.value)
    assert left(store) == []
    assert len(server.requests) == 1


@pytest.mark.parametrize("length", [True, False])
def test_file_longer_than_locked_is_refused(server: Behaviour, store: Artifacts, length: bool) -> None:
    """Not streamed for ever."""
    server.more = b"x" * 50_000_000
    server.length = length
    with pytest.raises(InfrastructureError, match=r"longer than 1024000 bytes|the file has 51024000 bytes"):
        get(wanted(f"{server.address}/f"), store)
    assert left(store) == []


def test_file_missing_on_all_mirrors_is_not_found(server: Behaviour, store: Artifacts) -> None:
    """From all mirrors; one that has it will do."""
    addresses = (f"{server.address}/no", f"{server.address}/neither")
    with pytest.raises(NotFoundError, match=r"^thing 1\.0 is no longer available at http://127.* http://127") as caught:
        get(wanted(*addresses), store)
    assert caught.value.exit_code == 3
    assert len(server.requests) == 2
    assert left(store) == []
    assert get(wanted(*addresses, f"{server.address}/f"), store).read_bytes() == DATA


def test_refused_is_not_gone(server: Behaviour, store: Artifacts) -> None:
    server.refuse = [403]
    with pytest.raises(InfrastructureError, match="the server answers '403 Forbidden'") as caught:
        get(wanted(f"{server.address}/f"), store)
    assert not isinstance(caught.value, NotFoundError)


@pytest.mark.parametrize("again", [False, True])
def test_the_first_mirror_has_something_else(server: Behaviour, store: Artifacts, tmp_path: Path, again: bool) -> None:
    """And ends in the middle of it: the second has the file, and is asked for all of it; also where it is cut off itself."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "f").write_bytes(b"?" * len(DATA))
    server.cut = [200_000] if again else []
    with serve(tmp_path / "other") as other:
        other.cut = [100_000] * 3
        thing = wanted(f"{other.address}/f", f"{server.address}/f")
        assert get(thing, store).read_bytes() == DATA
    assert [given for _, given in server.requests] == ["bytes=100000-", *(["bytes=400000-"] if again else []), ""]
    assert left(store) == [""]


def test_all_of_it_was_left(server: Behaviour, store: Artifacts) -> None:
    """By a process that was killed after the download, of a file of unknown size."""
    thing = wanted(f"{server.address}/f", size=None)
    store.folder.mkdir()
    store.part(thing.sha256).write_bytes(DATA)
    assert get(thing, store).read_bytes() == DATA
    assert server.requests == []
    assert left(store) == [""]


@pytest.mark.parametrize("status", [401, 403, 407])
def test_access_errors_let_pip_try(server: Behaviour, store: Artifacts, status: int) -> None:
    """pip may know a password or a proxy; it cannot help with a missing or another file."""
    server.refuse = [status]
    with pytest.raises(AccessError, match=f"the server answers '{status} "):
        get(wanted(f"{server.address}/f"), store)
    with pytest.raises(AccessError, match="cannot be reached"):
        get(wanted("http://127.0.0.1:1/f"), store)
    server.refuse = [500] * 3
    for thing in (wanted(f"{server.address}/f"), wanted(f"{server.address}/f", data=b"x" * len(DATA))):
        with pytest.raises(InfrastructureError) as caught:
            get(thing, store)
        assert not isinstance(caught.value, AccessError)


def test_busy_server_is_asked_again(server: Behaviour, store: Artifacts) -> None:
    server.refuse = [503, 429]
    assert get(wanted(f"{server.address}/f"), store).read_bytes() == DATA


def test_unreachable_server_is_named_without_login(store: Artifacts) -> None:
    with pytest.raises(InfrastructureError) as caught:
        get(wanted("http://user:secret@127.0.0.1:1/f"), store)
    assert (
        str(caught.value) == "thing 1.0 cannot be downloaded: http://127.0.0.1:1 cannot be reached: Connection refused"
    )
    with pytest.raises(InfrastructureError, match="no URL"):
        get(wanted(), store)
    with pytest.raises(InfrastructureError, match=r"invalid URL|unsupported scheme"):
        get(wanted("http://[x/f", "gopher://x/"), store)


@pytest.mark.parametrize("address", ["http://user:secret@host.invalid/f", "https://user:secret@host.invalid/f"])
def test_a_proxy_that_is_not_there(store: Artifacts, address: str) -> None:
    """Without the password."""
    proxy = "http://me:hidden@127.0.0.1:1"
    transport = Transport(routes=lambda: Routes(proxies={"http": proxy, "https": proxy}))
    with pytest.raises(InfrastructureError) as caught:
        download(wanted(address), store, transport=transport, pause=0)
    why = "cannot be reached through the proxy http://127.0.0.1:1: Connection refused"
    assert str(caught.value) == f"thing 1.0 cannot be downloaded: {address.partition(':')[0]}://host.invalid {why}"


def test_download_resumes_from_a_file_url(tmp_path: Path, store: Artifacts) -> None:
    source = tmp_path / "a file"
    source.write_bytes(DATA)
    thing = wanted(source.as_uri())
    store.folder.mkdir()
    store.part(thing.sha256).write_bytes(DATA[:1000])
    assert get(thing, store).read_bytes() == DATA
    with pytest.raises(NotFoundError):
        get(wanted((tmp_path / "no").as_uri(), data=b"x"), store)
    with pytest.raises(InfrastructureError, match="403"):
        get(wanted(tmp_path.as_uri(), data=b"x"), store)


def test_adopt_copies_and_checks_a_local_file(tmp_path: Path, store: Artifacts) -> None:
    """A copy, checked; never a link, or a colleague's damage would be ours."""
    source = tmp_path / "theirs"
    source.write_bytes(DATA)
    path = adopt(wanted(), source, store)
    assert path.read_bytes() == DATA
    assert not path.samefile(source)
    with pytest.raises(InfrastructureError, match="another hash"):
        adopt(wanted(data=b"x" * len(DATA)), source, store)


def test_cancelled_while_nothing_comes(server: Behaviour, store: Artifacts) -> None:
    server.hold = threading.Event()
    transport, cancelled = Transport(), threading.Event()
    caught: list[BaseException] = []

    def run() -> None:
        try:
            download(wanted(f"{server.address}/f"), store, transport=transport, cancelled=cancelled)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert server.reached.wait(120)
    time.sleep(0.1)
    cancelled.set()
    transport.abort()
    thread.join(25)
    assert not thread.is_alive()
    assert isinstance(caught[0], Cancelled), caught
    transport.close()


SCRIPT = """
import sys
from pathlib import Path
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.fetch.download import WantedFile, download
folder, sha256, size, address, limit = sys.argv[1:]
if int(limit):
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
try:
    download(WantedFile(name="thing 1.0", sha256=sha256, size=int(size), addresses=(address,)), Artifacts(Path(folder)))
except Exception as error:
    print(type(error).__name__, error)
"""


def start(store: Artifacts, address: str, limit: int = 0) -> AbstractContextManager[subprocess.Popen[str]]:
    thing = wanted(address)
    return start_python("-c", SCRIPT, str(store.folder), thing.sha256, str(thing.size), address, str(limit))


def test_two_processes(server: Behaviour, store: Artifacts) -> None:
    """One process downloads, the other waits and uses the file."""
    server.hold = threading.Event()
    with start(store, f"{server.address}/f") as first, start(store, f"{server.address}/f") as second:
        assert server.reached.wait(120)
        time.sleep(0.5)
        server.hold.set()
        assert first.communicate(timeout=120)[0] == second.communicate(timeout=120)[0] == ""
    assert store.path(wanted().sha256).read_bytes() == DATA
    assert len(server.requests) == 1
    assert left(store) == [""]


def test_a_killed_fetch(server: Behaviour, store: Artifacts) -> None:
    """Resume the part of a killed process, whose lock has ended."""
    server.hold = threading.Event()
    part = store.part(wanted().sha256)
    with start(store, f"{server.address}/f"):
        assert server.reached.wait(120)
        until = time.monotonic() + 120
        while not part.exists() or part.stat().st_size < 400_000:
            assert time.monotonic() < until
            time.sleep(0.02)
    there = part.stat().st_size
    server.hold.set()
    server.hold = None
    assert get(wanted(f"{server.address}/f"), store).read_bytes() == DATA
    assert server.requests[-1] == ("/f", f"bytes={there}-")


def test_full_disk_removes_the_part(server: Behaviour, store: Artifacts) -> None:
    """Said so, and the half file is removed: it would be in everybody's way."""
    with start(store, f"{server.address}/f", limit=500_000) as process:
        out = process.communicate(timeout=120)[0]
    assert out.startswith("DiskFullError thing 1.0 cannot be stored: the disk is full"), out
    assert left(store) == []


def test_store_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InfrastructureError, match=rf"cannot be stored: (?:{os.strerror(errno.ENOTDIR)}|File exists)"):
        get(wanted("file:///x"), Artifacts(tmp_path / "file" / "artifacts"))
