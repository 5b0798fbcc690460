"""Install local wheels with the real pip: complete or not at all, checked, in parallel, and cancelled at once."""

from __future__ import annotations

import fcntl
import hashlib
import http.server
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.events import PackageProgress
from mlir_matrix.base.paths import Home
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.fetch.pip import solve
from mlir_matrix.environments.install import wheel as provided
from mlir_matrix.environments.installer import Installer
from mlir_matrix.environments.interpreter import own, version_of
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.resolve import ResolvedEnvironment
from support import debs, loopback
from support.wheelhouse import wheel


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "packages"
    folder.mkdir()
    return folder


def environment(*packages: WheelPackage) -> ResolvedEnvironment:
    return ResolvedEnvironment(name="x", interpreter=own(), packages=packages)


def artifacts(store: Path) -> Artifacts:
    return Artifacts(store.parent / "artifacts")


def install(store: Path, *environments: ResolvedEnvironment) -> list[PackageProgress]:
    events: list[PackageProgress] = []
    installer = Installer(store, events.append, artifacts=artifacts(store))
    installer.request(environments)
    installer.finish()
    return events


def left(store: Path) -> set[str]:
    return {path.name for path in store.iterdir() if path.name != ".locks"}


def test_packages_arrive(wheels: Path, store: Path) -> None:
    """Each in a folder of its own, once, though two environments ask for it."""
    one, two, both = (wheel(wheels, name) for name in ("one", "two", "both"))
    events = install(store, environment(one, both), environment(two, both))
    assert left(store) == {package.folder_for(own().tag) for package in (one, two, both)}
    assert (store / one.folder_for(own().tag) / "one.py").read_text() == "x" * 10
    assert sorted(event.package for event in events if event.done) == ["both 1.0", "one 1.0", "two 1.0"]
    assert not [event for event in events if event.error]
    assert install(store, environment(one, two, both)) == []
    assert {entry.sha256 for entry in artifacts(store).entries()} == {each.hashes[0] for each in (one, two, both)}


def test_another_hash(wheels: Path, store: Path) -> None:
    """Is not installed, whatever it is; the others are."""
    one, good = wheel(wheels, "one"), wheel(wheels, "good")
    bad = WheelPackage(name="one", version="1.0", hashes=("0" * 64,))
    (error,) = [event.error for event in install(store, environment(bad, good)) if event.error]
    assert error == "one 1.0 has another hash than in the lock file; not installed"
    assert left(store) == {good.folder_for(own().tag)}
    assert one.hashes != bad.hashes


def test_one_of_the_hashes_will_do(wheels: Path, store: Path) -> None:
    one = wheel(wheels, "one")
    either = WheelPackage(name="one", version="1.0", hashes=("0" * 64, *one.hashes))
    assert not [event for event in install(store, environment(either)) if event.error]


@pytest.mark.parametrize(
    ("version", "advice"), [("2.0", "not on the package indexes"), ("2.0+cpu", "add the index of PyTorch's CPU builds")]
)
def test_what_nobody_has(wheels: Path, store: Path, version: str, advice: str) -> None:
    wheel(wheels, "one")
    absent = WheelPackage(name="one", version=version, hashes=("0" * 64,))
    (error,) = [event.error for event in install(store, environment(absent)) if event.error]
    assert advice in error
    assert left(store) == set()


def test_a_constraint_of_pip(wheels: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One in the configuration of the machine is named, and what it is in conflict with."""
    one = wheel(wheels, "one")
    constraints = wheels / "constraints.txt"
    constraints.write_text("one==0.9\n")
    monkeypatch.setenv("PIP_CONSTRAINT", str(constraints))
    (error,) = [event.error for event in install(store, environment(one)) if event.error]
    conflict = "The user requested one==1.0, The user requested (constraint) one==0.9"
    assert error == (
        f"one 1.0 cannot be installed; pip reports a conflict: {conflict}. Take the constraint out of pip's configuration "
        "(see: pip config list, PIP_CONSTRAINT)"
    )
    home = Home(cache=store, state=store, actions=store)
    with pytest.raises(InfrastructureError) as raised:
        solve({"one": "1.0"}, home, tag=own().tag)
    assert str(raised.value) == f"no solution for CPython {version_of(own().tag)}; pip reports: {conflict}"
    constraints.write_text("one==1.0\n")
    assert [(each.name, each.version, each.hashes) for each in solve({"one": "1.0"}, home, tag=own().tag)] == [
        ("one", "1.0", one.hashes)
    ]
    assert list(home.scratch.iterdir()) == []


def test_a_broken_wheel(wheels: Path, store: Path) -> None:
    (wheels / "one-1.0-py3-none-any.whl").write_bytes(b"no archive")
    digest = hashlib.sha256(b"no archive").hexdigest()
    events = install(store, environment(WheelPackage(name="one", version="1.0", hashes=(digest,))))
    assert events[-1].error.startswith("one 1.0 cannot be installed; pip reports: "), events
    assert left(store) == set()
    assert artifacts(store).entries() == []


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
    package = WheelPackage(name="one", version="1.0", hashes=(hashlib.sha256(path.read_bytes()).hexdigest(),))
    (error,) = [event.error for event in install(store, environment(package)) if event.error]
    assert "not on the package indexes" in error
    assert left(store) == set()


def test_prefixes_and_packages_together(wheels: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment may have both; each is a unit of its own."""
    one, mirror = wheel(wheels, "one"), debs.Mirror(wheels.parent / "mirror")
    monkeypatch.setenv("MATRIX_DEB_MIRROR", mirror.base)
    lock = debs.release(mirror)
    both = ResolvedEnvironment(name="x", interpreter=own(), packages=(one,), prefixes=(lock,))
    events = install(store, both, environment(one))
    assert sorted(event.package for event in events if event.done) == ["one 1.0", lock.label]
    assert both.missing(store) == ()
    assert left(store) == {one.folder_for(own().tag), lock.folder}
    (script,) = (Path(root, ".matrix", "bin", "say") for root in both.roots(store))
    assert subprocess.run([script, "hello"], capture_output=True, text=True, check=True).stdout == "said say hello\n"


def test_no_mirror_is_no_failure(wheels: Path, store: Path, without_mirror: Path) -> None:
    """A mirror that is configured and has nothing is one; so is a URL that is none."""
    lock = debs.release(debs.Mirror(wheels.parent / "mirror"))
    needs_lock = ResolvedEnvironment(name="x", interpreter=own(), packages=(), prefixes=(lock,))
    (event,) = [event for event in install(store, needs_lock) if event.error]
    assert event.unavailable
    assert event.error == (
        f"tool 2.0: its Debian packages need a mirror, and apt's configuration ({without_mirror}) has none; "
        "set MATRIX_DEB_MIRROR to the URL of one, or name a folder with the packages: matrix toolchain fetch --from DIR"
    )
    (without_mirror / "sources.list").write_text(f"deb file://{wheels}/debian bookworm main\n")
    (event,) = [event for event in install(store, needs_lock) if event.error]
    assert "does not have pool/main" in event.error
    assert not event.unavailable
    assert left(store) == set()


def test_what_a_killed_run_left_is_removed(wheels: Path, store: Path) -> None:
    one = wheel(wheels, "one")
    stale = store / f".new-{one.folder_for(own().tag)}-abc"
    (stale / "site").mkdir(parents=True)
    install(store, environment(one))
    assert left(store) == {one.folder_for(own().tag)}


def test_no_place_to_put_it(wheels: Path, store: Path) -> None:
    """Report an unexpected error instead of ending the thread silently."""
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


def begun(store: Path, *packages: WheelPackage, steps: int = 1) -> tuple[Installer, list[PackageProgress]]:
    """Return an installer that has taken so many steps, and its events."""
    events: list[PackageProgress] = []
    installer = Installer(store, events.append, artifacts=artifacts(store))
    installer.request([environment(*packages)])
    until = time.monotonic() + 60
    while len(events) < steps:
        assert time.monotonic() < until
        time.sleep(0.02)
    return installer, events


def close_at_once(installer: Installer) -> None:
    started = time.monotonic()
    installer.close()
    assert time.monotonic() - started < 60


def test_closing_ends_what_goes_on(slow: Path, store: Path) -> None:
    """At once, pip included, and what waits for its turn never begins."""
    packages = [wheel(slow, f"p{number}") for number in range(6)]
    installer, events = begun(store, *packages)
    time.sleep(1.5)
    close_at_once(installer)
    assert left(store) == set()
    assert not [event for event in events if event.done or event.error]


def test_closing_does_not_wait_for_bytes(wheels: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancel a stalled download; the next one resumes it."""
    one = wheel(wheels, "one", size=400_000)
    with loopback.serve(wheels) as server:
        monkeypatch.setenv("no_proxy", "*")
        monkeypatch.setattr(
            provided, "locate", lambda *_given: (f"{server.address}/one-1.0-py3-none-any.whl", *one.hashes)
        )
        server.hold = threading.Event()
        installer, events = begun(store, one, steps=2)
        close_at_once(installer)
        assert not [event for event in events if event.done or event.error]
        server.hold.set()
        server.hold = None
        there = artifacts(store).part(one.hashes[0]).stat().st_size
        assert [event.done for event in install(store, environment(one))][-1]
        assert server.requests[-1][1] == f"bytes={there}-"
        assert there


def test_closing_does_not_wait_for_others(wheels: Path, store: Path) -> None:
    """Somebody else is installing the same package and takes for ever."""
    one = wheel(wheels, "one")
    (store / ".locks").mkdir()
    with open(store / ".locks" / one.folder_for(own().tag), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        installer, _ = begun(store, one)
        close_at_once(installer)
    assert left(store) == set()


def test_waiting_for_others(wheels: Path, store: Path) -> None:
    """When they are done, what they installed is taken."""
    one = wheel(wheels, "one")
    (store / ".locks").mkdir()
    with open(store / ".locks" / one.folder_for(own().tag), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        installer, events = begun(store, one)
        (store / one.folder_for(own().tag)).mkdir()
    installer.finish()
    assert events[-1].done
    assert not list((store / one.folder_for(own().tag)).iterdir())
