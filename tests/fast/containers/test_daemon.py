"""Connect to a daemon; report its errors as InfrastructureError."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.containers import daemon as daemons
from mlir_matrix.containers.daemon import Daemon, connect
from support.fake_daemon import Answer, daemon

#: Docker's library leaves the sockets of requests that failed to Python's collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short name: paths of sockets are short."""
    with tempfile.TemporaryDirectory(prefix="m-") as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No daemon of this machine is spoken to, and nothing is left to be collected in other tests."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setattr(daemons, "_sockets", lambda: iter(()))
    yield
    gc.collect()


def said(short: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer, what: str) -> str:
    """Return the error for an answer of the daemon."""
    with daemon(short, answer) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        there = connect()
        with pytest.raises(InfrastructureError) as error:
            ask(there, what)
        there.close()
    return str(error.value).replace(address, "ADDRESS")


def ask(there: Daemon, what: str) -> None:
    if what == "load":
        there.load(iter([b"x" * 100_000] * 100))
    elif what == "image":
        there.image("a:b")
    elif what == "images":
        there.images("a")
    elif what == "push":
        there.push("localhost:1/a:b")
    else:
        list(there.save("a"))


def test_no_daemon() -> None:
    with pytest.raises(InfrastructureError, match=r"^no container daemon is running; start one") as error:
        connect()
    assert error.value.exit_code == 3


def test_nobody_listens(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in (f"unix://{short}/none", "tcp://127.0.0.1:9"):
        monkeypatch.setenv("DOCKER_HOST", address)
        with pytest.raises(InfrastructureError, match=rf"^no container daemon answers at {address}; start one"):
            connect()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{short}/left")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{short}/left")
    with pytest.raises(InfrastructureError, match=r"^no container daemon answers"):
        connect()


@pytest.mark.parametrize("address", ["x", "ssh://x", "ftp://x:1"])
def test_an_address_that_is_none(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(InfrastructureError, match=rf"the container daemon at {address} does not answer as expected"):
        connect()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a socket that others may not use")
def test_a_user_who_is_not_let_in(short: Path) -> None:
    code = (
        "import os, sys; import docker\n"
        "from mlir_matrix.containers.daemon import connect\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: connect()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    short.chmod(0o755)
    with daemon(short, lambda _method, _path: None) as address:
        (short / "s").chmod(0o660)
        environment = {
            "PYTHONPATH": ":".join(sys.path),
            "DOCKER_HOST": address,
            "DOCKER_CONFIG": str(short),
            "PATH": "/bin",
        }
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"InfrastructureError the container daemon at {address} refuses this user; join its")
    assert "--groups docker" in done.stdout


def test_sockets_that_are_there(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own ones, of Docker and of Podman; what is no socket is none."""
    monkeypatch.undo()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    (short / "podman").mkdir()
    (short / "docker.sock").write_text("no socket")
    with socket.socket(socket.AF_UNIX) as podman:
        podman.bind(f"{short}/podman/podman.sock")
        found = [address for address in daemons._sockets() if str(short) in address]
    assert found == [f"unix://{short}/podman/podman.sock"]


def test_an_image_that_it_has_not(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with daemon(short, lambda _method, _path: (404, {"message": "No such image: a:b"})) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        there = connect()
        assert there.image("a:b") is None
        there.close()


@pytest.mark.parametrize("what", ["load", "image", "images", "save", "push"])
def test_a_daemon_that_is_gone_meanwhile(short: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    sentence = said(short, monkeypatch, lambda _method, _path: None, what)
    assert sentence.startswith("the container daemon at ADDRESS does not answer as expected, ")


@pytest.mark.parametrize("what", ["load", "images", "save", "push"])
def test_what_it_says_is_passed_on(short: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    sentence = said(short, monkeypatch, lambda _method, _path: (500, {"message": "it is tired"}), what)
    assert sentence.startswith("the container daemon reports an error, ")
    assert sentence.endswith(": it is tired")


@pytest.mark.parametrize(
    "answer", [(200, {"error": "write /x: no space left on device"}), (500, {"message": "No space left"})]
)
def test_a_full_disk(short: Path, monkeypatch: pytest.MonkeyPatch, answer: tuple[int, dict[str, str]]) -> None:
    sentence = said(short, monkeypatch, lambda _method, _path: answer, "load")
    assert (
        sentence
        == "the container daemon's disk is full, loading images; for the largest objects, run: docker system df"
    )


def test_what_goes_wrong_with_what_is_sent_is_no_daemons(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"x"
        raise InfrastructureError("numpy is damaged")

    with daemon(short, lambda _method, _path: (200, {})) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        there = connect()
        with pytest.raises(InfrastructureError, match=r"^numpy is damaged$"):
            there.load(pieces())
        there.close()


def test_it_is_imported_late() -> None:
    """Most commands need no daemon and download nothing."""
    code = (
        "import sys; import mlir_matrix.containers.images, mlir_matrix.results.run_plan\n"
        "assert not {'docker', 'requests', 'urllib3'} & set(sys.modules)\n"
        "import mlir_matrix.containers.commands, mlir_matrix.toolchain.commands\n"
        "assert not {'docker', 'requests', 'urllib3'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=True)
