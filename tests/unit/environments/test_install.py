"""Installing with the real pip, from a folder of wheels made here: whole or not at all, checked, in parallel, and ended at once."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import http.server
import os
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlir_matrix.environments.install import Installer, PackageProgress
from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.lock import Package
from mlir_matrix.environments.resolve import ResolvedEnvironment


def wheel(folder: Path, name: str, *, size: int = 10) -> Package:
    """A pure wheel of one module, and its package."""
    files = {
        f"{name}.py": b"x" * size,
        f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{name}-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for path, data in files.items()
    )
    files[f"{name}-1.0.dist-info/RECORD"] = f"{record}{name}-1.0.dist-info/RECORD,,\n".encode()
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, data in files.items():
            archive.writestr(inner, data)
    return Package(name=name, version="1.0", hashes=(hashlib.sha256(path.read_bytes()).hexdigest(),))


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place that pip looks at."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "packages"
    folder.mkdir()
    return folder


def environment(*packages: Package) -> ResolvedEnvironment:
    return ResolvedEnvironment(name="x", interpreter=own(), packages=packages)


def install(store: Path, *environments: ResolvedEnvironment) -> list[PackageProgress]:
    events: list[PackageProgress] = []
    installer = Installer(store, events.append)
    installer.request(environments)
    installer.finish()
    return events


def left(store: Path) -> set[str]:
    return {path.name for path in store.iterdir() if path.name != ".locks"}


def test_packages_arrive(wheels: Path, store: Path) -> None:
    """Each in a folder of its own, once, though two environments ask for it."""
    one, two, both = (wheel(wheels, name) for name in ("one", "two", "both"))
    events = install(store, environment(one, both), environment(two, both))
    assert left(store) == {package.folder(own().tag) for package in (one, two, both)}
    assert (store / one.folder(own().tag) / "one.py").read_text() == "x" * 10
    assert sorted(event.package for event in events if event.done) == ["both 1.0", "one 1.0", "two 1.0"]
    assert not [event for event in events if event.error]
    assert install(store, environment(one, two, both)) == []


def test_another_hash(wheels: Path, store: Path) -> None:
    """Is not installed, whatever it is; the others are."""
    one, good = wheel(wheels, "one"), wheel(wheels, "good")
    bad = Package(name="one", version="1.0", hashes=("0" * 64,))
    (error,) = [event.error for event in install(store, environment(bad, good)) if event.error]
    assert error == "one 1.0 was offered with another hash than the lock has; it was not installed"
    assert left(store) == {good.folder(own().tag)}
    assert one.hashes != bad.hashes


def test_one_of_the_hashes_will_do(wheels: Path, store: Path) -> None:
    one = wheel(wheels, "one")
    either = Package(name="one", version="1.0", hashes=("0" * 64, *one.hashes))
    assert not [event for event in install(store, environment(either)) if event.error]


@pytest.mark.parametrize(
    ("version", "advice"), [("2.0", "not on the package indexes"), ("2.0+cpu", "add the index of PyTorch's CPU builds")]
)
def test_what_nobody_has(wheels: Path, store: Path, version: str, advice: str) -> None:
    wheel(wheels, "one")
    absent = Package(name="one", version=version, hashes=("0" * 64,))
    (error,) = [event.error for event in install(store, environment(absent)) if event.error]
    assert advice in error
    assert left(store) == set()


def test_a_broken_wheel(wheels: Path, store: Path) -> None:
    (wheels / "one-1.0-py3-none-any.whl").write_bytes(b"no archive")
    digest = hashlib.sha256(b"no archive").hexdigest()
    events = install(store, environment(Package(name="one", version="1.0", hashes=(digest,))))
    assert "one 1.0 cannot be installed; pip says:" in events[-1].error
    assert left(store) == set()


def test_a_source_distribution_is_no_package(wheels: Path, store: Path) -> None:
    """Building it would run its code, here and outside of any isolation."""
    import io
    import tarfile

    path = wheels / "one-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in (
            ("setup.py", f"open({str(store / 'ran')!r}, 'w')\n"),
            ("PKG-INFO", "Metadata-Version: 2.1\nName: one\nVersion: 1.0\n"),
        ):
            info = tarfile.TarInfo(f"one-1.0/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    package = Package(name="one", version="1.0", hashes=(hashlib.sha256(path.read_bytes()).hexdigest(),))
    (error,) = [event.error for event in install(store, environment(package)) if event.error]
    assert "not on the package indexes" in error
    assert left(store) == set()


def test_what_a_killed_run_left_is_removed(wheels: Path, store: Path) -> None:
    one = wheel(wheels, "one")
    stale = store / f".new-{one.folder(own().tag)}-abc"
    (stale / "site").mkdir(parents=True)
    install(store, environment(one))
    assert left(store) == {one.folder(own().tag)}


def test_no_place_to_put_it(wheels: Path, store: Path) -> None:
    """The thread says so, rather than ending in silence while the run waits."""
    (store / ".locks").write_text("in the way")
    events = install(store, environment(wheel(wheels, "one")))
    assert "one 1.0 cannot be installed" in events[-1].error


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch, wheels: Path) -> Iterator[Path]:
    """An index on this machine that never gets to the end of a wheel."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            names = [path.name for path in wheels.iterdir()]
            self.send_response(200)
            if self.path.endswith(".whl"):
                self.send_header("Content-Length", "100000000")
                self.end_headers()
                try:
                    while not stopping.wait(0.05):
                        self.wfile.write(b"x" * 1000)
                except OSError:
                    return
                return
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write("".join(f'<a href="/{name}">{name}</a>' for name in names).encode())

        def log_message(self, format: str, *args: object) -> None:
            return

    stopping = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    yield wheels
    stopping.set()
    server.shutdown()
    server.server_close()


def wait_for(events: list[PackageProgress], count: int = 1) -> None:
    until = time.monotonic() + 60
    while len(events) < count:
        assert time.monotonic() < until
        time.sleep(0.02)


def test_closing_ends_what_goes_on(slow: Path, store: Path) -> None:
    """At once, pip included, and what waits for its turn never begins."""
    packages = [wheel(slow, f"p{number}") for number in range(6)]
    events: list[PackageProgress] = []
    installer = Installer(store, events.append)
    installer.request([environment(*packages)])
    wait_for(events)
    time.sleep(1.5)
    started = time.monotonic()
    installer.close()
    assert time.monotonic() - started < 10
    assert left(store) == set()
    assert not [event for event in events if event.done or event.error]


def test_closing_does_not_wait_for_others(wheels: Path, store: Path) -> None:
    """Somebody else is installing the same package and takes for ever."""
    one = wheel(wheels, "one")
    (store / ".locks").mkdir()
    with open(store / ".locks" / one.folder(own().tag), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        events: list[PackageProgress] = []
        installer = Installer(store, events.append)
        installer.request([environment(one)])
        wait_for(events)
        started = time.monotonic()
        installer.close()
        assert time.monotonic() - started < 5
    assert left(store) == set()


def test_waiting_for_others(wheels: Path, store: Path) -> None:
    """When they are done, what they installed is taken."""
    one = wheel(wheels, "one")
    (store / ".locks").mkdir()
    events: list[PackageProgress] = []
    with open(store / ".locks" / one.folder(own().tag), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        installer = Installer(store, events.append)
        installer.request([environment(one)])
        wait_for(events)
        (store / one.folder(own().tag)).mkdir()
    installer.finish()
    assert events[-1].done
    assert not list((store / one.folder(own().tag)).iterdir())
