"""Install wheels: find them by pip, download them, and report errors."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import Cancelled
from mlir_matrix.environments.fetch import download as downloads
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.fetch.download import NotFoundError
from mlir_matrix.environments.fetch.http import Transport
from mlir_matrix.environments.fetch.pip import variables
from mlir_matrix.environments.fetch.workshop import Pip, Workshop
from mlir_matrix.environments.install import wheel as module
from mlir_matrix.environments.install.wheel import locate, provide_wheel
from mlir_matrix.environments.installed.integrity import damaged_files
from mlir_matrix.environments.interpreter import Interpreter, own
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from support.loopback import Behaviour, serve
from support.wheelhouse import package, wheel

Provide = Callable[..., Path]


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path / "artifacts")


@pytest.fixture
def provide(tmp_path: Path, artifacts: Artifacts) -> Iterator[Provide]:
    transport = Transport()
    (tmp_path / "packages").mkdir()

    def run(thing: WheelPackage, *, store: Artifacts | None = None, cancelled: threading.Event | None = None) -> Path:
        event = cancelled or threading.Event()
        destination = tmp_path / "packages" / thing.folder_for(own().tag)
        workshop = Workshop(
            packages=destination.parent, artifacts=store or artifacts, pip=Pip(event), transport=transport,
            listener=lambda _progress: None, cancelled=event,
        )  # fmt: skip
        provide_wheel(thing, own(), destination, workshop)
        return destination

    yield run
    transport.close()


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip is not to be asked."""

    def fail(*_given: object) -> None:
        raise AssertionError("pip was asked")

    monkeypatch.setattr(Pip, "call", fail)


@pytest.fixture
def server(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behaviour]:
    """A server of wheels that pip is configured with."""
    monkeypatch.setenv("no_proxy", "*")
    with serve(wheels) as behaviour:
        monkeypatch.setattr(
            module, "locate",
            lambda thing, *_given: (f"{behaviour.address}/{thing.name}-1.0-py3-none-any.whl", thing.hashes[0]),
        )  # fmt: skip
        yield behaviour


def test_locate_finds_url_and_hash(wheels: Path) -> None:
    one = wheel(wheels, "one")
    address, value = locate(one, own(), Pip(threading.Event()), wheels)
    assert address == (wheels / "one-1.0-py3-none-any.whl").as_uri()
    assert (value,) == one.hashes


def test_temporary_files_of_pip_go_with_the_package(
    wheels: Path, provide: Provide, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are beside it, where the next installation removes what a killed one left."""
    given: list[Path] = []
    call = Pip.call

    def noted(pip: Pip, arguments: list[str], folder: Path) -> tuple[int, str]:
        given.append(folder)
        return call(pip, arguments, folder)

    monkeypatch.setattr(Pip, "call", noted)
    made = provide(wheel(wheels, "one"))
    (folder,) = given
    assert folder.parent == made.parent
    assert folder.name.startswith(f".new-{made.name}-")
    assert variables(folder)["TMPDIR"] == str(folder)
    assert list(made.parent.iterdir()) == [made]


def test_locate_for_another_interpreter(wheels: Path) -> None:
    """Not for the one that pip runs on: its own wheel is another."""
    other = next(version for version in ("3.11.0", "3.12.0") if not sys.version.startswith(version[:4]))
    tag = f"cp{other.replace('.', '')[:3]}"
    wheel(wheels, "one")
    pure = wheels / "one-1.0-py3-none-any.whl"
    for each in (tag, own().tag):
        made = wheels / f"one-1.0-{each}-{each}-manylinux_2_17_x86_64.whl"
        made.write_bytes(pure.read_bytes() + each.encode())
    pure.unlink()
    wanted = package(wheels / f"one-1.0-{tag}-{tag}-manylinux_2_17_x86_64.whl")
    interpreter = Interpreter(path="/nowhere/python", version=other, libc="glibc 2.36")
    address, value = locate(wanted, interpreter, Pip(threading.Event()), wheels)
    assert f"-{tag}-" in address
    assert (value,) == wanted.hashes
    with pytest.raises(InfrastructureError, match="another hash than in the lock file"):
        locate(wanted, own(), Pip(threading.Event()), wheels)


def test_kept_and_unpacked_again_without_pip(
    wheels: Path, provide: Provide, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its index has lost it, and in place of a file."""
    one = wheel(wheels, "one")
    folder = provide(one)
    assert (folder / "one.py").read_text() == "x" * 10
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert artifacts.has(one.hashes[0])
    os.rename(folder, folder.with_name("away"))
    folder.touch()
    (wheels / "one-1.0-py3-none-any.whl").unlink()
    monkeypatch.setattr(Pip, "call", None)
    assert (provide(one) / "one.py").read_text() == "x" * 10
    assert not list(folder.parent.glob(".new-*"))


@pytest.mark.parametrize("place", ["store", "home", "plain"])
@pytest.mark.usefixtures("nobody")
def test_wheel_is_copied_from_another_store(tmp_path: Path, wheels: Path, provide: Provide, place: str) -> None:
    """Copied, not linked; whatever their folder looks like."""
    one = wheel(wheels, "one")
    theirs = tmp_path / "theirs"
    name = {"store": one.hashes[0], "home": f"artifacts/{one.hashes[0]}", "plain": "their own name.whl"}[place]
    (theirs / name).parent.mkdir(parents=True)
    (wheels / "one-1.0-py3-none-any.whl").rename(theirs / name)
    ours = Artifacts(tmp_path / "ours", [theirs])
    either = replace(one, hashes=("0" * 64, *one.hashes))
    assert (provide(either, store=ours) / "one.py").is_file()
    assert ours.has(one.hashes[0])
    assert not ours.path(one.hashes[0]).samefile(theirs / name)


def test_damaged_wheel_is_downloaded_again(wheels: Path, provide: Provide, artifacts: Artifacts) -> None:
    """Is put aside and fetched again, not unpacked."""
    one = wheel(wheels, "one")
    folder = provide(one)
    kept = artifacts.path(one.hashes[0])
    data = bytearray(kept.read_bytes())
    data[45] ^= 1
    kept.write_bytes(data)
    os.rename(folder, folder.with_name("away"))
    assert damaged_files(provide(one), thorough=True) == []
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == one.hashes[0]


def test_a_download_that_was_interrupted_goes_on(
    server: Behaviour, wheels: Path, provide: Provide, artifacts: Artifacts
) -> None:
    one = wheel(wheels, "one", size=300_000)
    data = (wheels / "one-1.0-py3-none-any.whl").read_bytes()
    artifacts.folder.mkdir()
    artifacts.part(one.hashes[0]).write_bytes(data[:100_000])
    assert damaged_files(provide(one), thorough=True) == []
    assert server.requests == [("/one-1.0-py3-none-any.whl", "bytes=100000-")]


@pytest.mark.parametrize("status", [401, 403, 407])
def test_where_an_index_wants_to_know_who_asks(
    server: Behaviour, wheels: Path, provide: Provide, artifacts: Artifacts, status: int
) -> None:
    """pip has the answer; nothing that it needed for that is left."""
    one = wheel(wheels, "one")
    server.refuse = [status]
    folder = provide(one)
    assert (folder / "one.py").is_file()
    assert len(server.requests) == 1
    assert [path.name for path in artifacts.folder.iterdir()] == list(one.hashes)
    assert list(folder.parent.iterdir()) == [folder]


def test_where_only_pip_knows_the_way(wheels: Path, provide: Provide, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example by its own proxy."""
    one = wheel(wheels, "one")
    monkeypatch.setattr(module, "locate", lambda thing, *_given: ("http://127.0.0.1:1/f", thing.hashes[0]))
    assert (provide(one) / "one.py").is_file()


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize("refusals", [[404], [500] * 3])
def test_pip_is_asked_for_nothing_else(server: Behaviour, wheels: Path, provide: Provide, refusals: list[int]) -> None:
    """pip is not tried if the server answers that the file is missing or broken."""
    server.refuse = [*refusals]
    with pytest.raises(
        InfrastructureError, match="is no longer available" if refusals == [404] else "the server answers '500"
    ):
        provide(wheel(wheels, "one"))


@pytest.mark.usefixtures("server", "nobody")
def test_full_disk_ends_a_wheel_download(wheels: Path, provide: Provide, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is as full for pip."""

    def full(*_given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(downloads, "write_all", full)
    with pytest.raises(InfrastructureError, match=r"one 1\.0 cannot be stored: the disk is full"):
        provide(wheel(wheels, "one"))


def test_the_size_that_the_lock_has(server: Behaviour, wheels: Path, provide: Provide, artifacts: Artifacts) -> None:
    """Refuse a longer file; with several builds, the size is unknown."""
    one = wheel(wheels, "one", size=5000)
    size = (wheels / "one-1.0-py3-none-any.whl").stat().st_size
    with pytest.raises(InfrastructureError, match=f"the file has {size} bytes, expected {size - 1}"):
        provide(replace(one, size=size - 1))
    folder = provide(replace(one, size=size - 1, hashes=(*one.hashes, "0" * 64)))
    os.rename(folder, folder.with_name("away"))
    artifacts.path(one.hashes[0]).write_bytes(b"cut")
    before = len(server.requests)
    assert damaged_files(provide(replace(one, size=size)), thorough=True) == []
    assert len(server.requests) == before + 1
    assert artifacts.has(one.hashes[0], size)


@pytest.mark.usefixtures("server", "nobody")
def test_another_file_at_the_address(wheels: Path, provide: Provide, artifacts: Artifacts) -> None:
    one = wheel(wheels, "one")
    wheel(wheels, "one", size=11)
    with pytest.raises(InfrastructureError, match="another hash than in the lock file"):
        provide(one)
    assert artifacts.entries() == artifacts.leftovers() == []


def test_another_hash_than_the_lock_has(wheels: Path, provide: Provide, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the hash even if pip does not."""
    one = wheel(wheels, "one")
    monkeypatch.setattr(module, "locate", lambda *_given: ("file:///x", "1" * 64))
    with pytest.raises(InfrastructureError, match="another hash than in the lock file"):
        provide(one)


def test_cancelled_wheel_leaves_nothing(wheels: Path, provide: Provide, artifacts: Artifacts) -> None:
    one = wheel(wheels, "one")
    event = threading.Event()
    event.set()
    with pytest.raises(Cancelled):
        provide(one, cancelled=event)
    assert artifacts.entries() == []


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"PIP_INDEX_URL": "http://127.0.0.1:1/simple"}, "Connection refused"),
        ({"PIP_INDEX_URL": "https://host.invalid/simple"}, "host.invalid"),
        ({"PIP_INDEX_URL": "https://host.invalid/simple", "PIP_PROXY": "http://127.0.0.1:1"}, "Connection refused"),
    ],
)
def test_wheel_without_network_reports_the_network(
    wheels: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], words: str
) -> None:
    """Report the network, not a missing package, and suggest no other release."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("no_proxy", "")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InfrastructureError) as caught:
        locate(WheelPackage(name="one", version="1.0", hashes=("0" * 64,)), own(), Pip(threading.Event()), wheels)
    assert not isinstance(caught.value, NotFoundError)
    assert str(caught.value).startswith("one 1.0 cannot be downloaded: no network, or a package index")
    assert words in str(caught.value)
    assert "Retry(" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("WARNING: Retrying after timed out\nERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "another hash than in the lock"),
        ("WARNING: Retrying\nERROR: [Errno 28] No space left on device", "the disk is full"),
        ("WARNING: There was a problem: SSLError(SSLCertVerificationError)\nERROR: No matching distribution", "no network"),
        ("ERROR: No matching distribution found", "not on the package indexes"), ("", "pip reports: nothing"),
    ],
)  # fmt: skip
def test_what_pip_says(said: str, words: str) -> None:
    """What is certain goes before what may have been a moment's trouble."""
    assert words in str(
        module._explained(WheelPackage(name="one", version="1.0", hashes=("0" * 64,)), said, Path("x/y"))
    )
