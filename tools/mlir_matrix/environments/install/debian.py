"""Install a Debian release as a prefix: download, check and unpack its packages in parallel, on all cores.

Decompressing takes longer than downloading, so unpacking begins with the first downloaded package. The prefix is created beside
its final path and renamed when it is complete.
"""

from __future__ import annotations

import os
import posixpath
import threading
import time
import urllib.parse
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.events import PackageListener, PackageProgress, ignore
from mlir_matrix.base.files import Cancelled, beside, locked, unwritable
from mlir_matrix.base.names import printable
from mlir_matrix.environments.fetch.apt_sources import OVERRIDE, find_mirrors, routes, settings
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.fetch.download import AccessError, NotFoundError, WantedFile, download, kept
from mlir_matrix.environments.fetch.http import Routes, Transport, shown
from mlir_matrix.environments.fetch.workshop import Workshop
from mlir_matrix.environments.install.debian_archive import BadArchive, read_control
from mlir_matrix.environments.install.unpack import Unpacked, make_links, unpack
from mlir_matrix.environments.installed.integrity import UnpackedFile, write_archives, write_manifest
from mlir_matrix.environments.installed.prefix import find_prefix, save_prefix
from mlir_matrix.environments.interpreter import Interpreter
from mlir_matrix.environments.lockfiles.debian import DebianPackage, DebianRelease
from mlir_matrix.environments.machine import HOST

#: Files may have this many times the bytes that the lock file states, because that number is the packager's estimate. No locked
#: package has more bytes than stated.
_MOST_EXPANSION = 2
#: Number of threads. Each downloads a package and then unpacks it.
_THREADS = 10
#: How many of them may unpack at a time, because each holds a few decompressed blocks of 24 MiB.
_MOST_UNPACKERS = 4
_POLL = 0.1
_BETWEEN_EVENTS = 0.05

#: A function that returns the URLs of mirrors. It is called only if a download is necessary.
FindMirrors = Callable[[], Sequence[str]]


def machine_mirrors() -> Sequence[str]:
    return find_mirrors().bases


def machine_routes() -> Routes:
    return routes(settings())


def install_debian(release: DebianRelease, interpreter: Interpreter, workshop: Workshop) -> None:
    """Install a release, whose patcher is installed. Raise InfrastructureError, Cancelled."""
    # One installation at a time, because each uses all connections and all cores.
    with workshop.turn:
        provide(
            release,
            artifacts=workshop.artifacts,
            packages=workshop.packages,
            listener=workshop.listener,
            cancelled=workshop.cancelled,
            patcher=workshop.packages / release.patcher.folder_for(interpreter.tag) if release.patcher else None,
        )


def provide(
    lock: DebianRelease,
    *,
    artifacts: Artifacts,
    packages: Path,
    mirrors: FindMirrors = machine_mirrors,
    listener: PackageListener = ignore,
    cancelled: threading.Event | None = None,
    patcher: Path | None = None,
) -> Path:
    """Install a release if it is missing; return its prefix. Raise InfrastructureError, NotFoundError, Cancelled.

    ``patcher``: folder of the package that patches, for lock files with ``in_place``. ``listener`` gets the progress, in
    threads.
    """
    destination = packages / lock.folder
    cancelled = cancelled or threading.Event()
    if destination.is_dir():
        return destination
    try:
        with locked(packages / ".locks" / lock.folder, cancelled):
            # Another process may have installed it meanwhile.
            if not destination.is_dir():
                with beside(destination) as scratch:
                    work = _Provision(
                        lock=lock, artifacts=artifacts, mirrors=mirrors, listener=listener, cancelled=cancelled
                    )
                    files, links = work.into(scratch)
                    prefix = find_prefix(scratch, lock.programs)
                    place = os.path.realpath(destination) if lock.in_place else ""
                    if lock.in_place:
                        from mlir_matrix.catalog.models.toolchains import PATCHER  # few are
                        from mlir_matrix.environments.install.patch_elf import patch

                        if patcher is None:
                            raise InfrastructureError(f"{lock.label} cannot be patched: no package {PATCHER}")
                        patchelf = patcher / "bin" / PATCHER
                        prefix, files = patch(
                            scratch, place, lock.finish, prefix, files, patchelf=patchelf, cancelled=cancelled
                        )
                    save_prefix(scratch, prefix)
                    write_archives(scratch, (package.sha256 for package in lock.packages))
                    write_manifest(scratch, files, links, place=place)
                    os.rename(scratch, destination)
    except OSError as error:
        raise unwritable(f"{lock.label} cannot be installed", error) from None
    return destination


def _check_control(path: Path, package: DebianPackage, archive: str) -> None:
    """Raise BadArchive if the control fields state another package, version or architecture than the lock file."""
    stated = read_control(path, archive=archive)
    expected = {"Package": (package.name,), "Version": (package.version,), "Architecture": (HOST.debian, "all")}
    for name, values in expected.items():
        found = str(stated[name]).strip()
        if found not in values:
            raise BadArchive(
                archive, f"its {name} is '{printable(found, 80)}', expected {' or '.join(values)}", "control"
            )


@dataclass(kw_only=True)
class _Provision:
    """The installation of one release."""

    lock: DebianRelease
    artifacts: Artifacts
    mirrors: FindMirrors
    listener: PackageListener
    cancelled: threading.Event
    bases: Sequence[str] | None = None
    #: The event that ends the other threads after one has failed.
    stop: threading.Event = field(default_factory=threading.Event)
    transport: Transport = field(default_factory=lambda: Transport(routes=machine_routes))
    guard: threading.Lock = field(default_factory=threading.Lock)
    received: dict[str, int] = field(default_factory=dict)
    unpacked: int = 0
    told: float = 0.0

    def into(self, scratch: Path) -> tuple[list[UnpackedFile], dict[str, str]]:
        """Fill a folder; return its files and links."""
        # What is in the store is only unpacked.
        has = self.artifacts.has
        self.received = {each.name: each.size for each in self.lock.packages if has(each.sha256, each.size)}
        slots = threading.Semaphore(min(os.cpu_count() or 1, _MOST_UNPACKERS))

        def work(package: DebianPackage) -> Unpacked:
            archive, name = self._fetch(package), f"{self.lock.label}: {package.label}"
            with slots:
                _check_control(archive, package, name)
                most = package.installed * _MOST_EXPANSION
                return unpack(
                    archive, scratch, archive=name, most=most, cancelled=self.stop, progress=self._unpack_progress
                )

        pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="debian")
        try:
            # The largest first, because unpacking it takes longest.
            largest_first = sorted(self.lock.packages, key=lambda package: -package.size)
            jobs = {package.name: pool.submit(work, package) for package in largest_first}
            waiting = set(jobs.values())
            while waiting:
                ready, waiting = wait(waiting, timeout=_POLL, return_when=FIRST_EXCEPTION)
                if self.cancelled.is_set():
                    raise Cancelled
                for job in ready:
                    job.result()
        finally:
            self.stop.set()
            # Wake threads that wait for bytes.
            self.transport.abort()
            pool.shutdown(wait=True, cancel_futures=True)
            self.transport.close()
        with self.guard:
            self._tell(last=True)
        done = [jobs[package.name].result() for package in self.lock.packages]
        links = make_links(scratch, (link for each in done for link in each.links))
        return [file for each in done for file in each.files], links

    def _fetch(self, package: DebianPackage) -> Path:
        """Return the path of a package in the store, with the right hash."""
        name, file = f"{self.lock.label}: {package.label}", posixpath.basename(package.path)
        wanted = WantedFile(name=name, sha256=package.sha256, size=package.size, file=file)
        found = kept(wanted, self.artifacts, cancelled=self.stop) or self._download(package, wanted)
        self._progress(package, package.size, 0)
        return found

    def _download(self, package: DebianPackage, wanted: WantedFile) -> Path:
        with self.guard:
            if self.bases is None:
                self.bases = tuple(self.mirrors())
            bases = self.bases
        # Mirrors do not quote '+' and '~'.
        path = urllib.parse.quote(package.path, safe="/+~")
        addresses = tuple(f"{base.rstrip('/')}/{path}" for base in bases)
        try:
            return download(
                replace(wanted, addresses=addresses),
                self.artifacts,
                transport=self.transport,
                progress=partial(self._progress, package),
                cancelled=self.stop,
            )
        except NotFoundError:
            raise NotFoundError(
                f"{wanted.name}: {' and '.join(map(shown, bases))} does not have {package.path}; {package.suite} may have a newer "
                f"version now. Name a mirror that has it in {OVERRIDE}, name a folder that has it by --from DIR, or lock the "
                f"new version: matrix toolchain lock {self.lock.component}"
            ) from None
        except AccessError as error:
            raise InfrastructureError(
                f"{error}. Name a mirror that can be reached in apt's configuration or in {OVERRIDE}, "
                "or name a folder with the packages: matrix toolchain fetch --from DIR"
            ) from None

    def _progress(self, package: DebianPackage, received: int, _total: int) -> None:
        with self.guard:
            self.received[package.name] = received
            self._tell()

    def _unpack_progress(self, size: int) -> None:
        with self.guard:
            self.unpacked += size
            self._tell()

    def _tell(self, *, last: bool = False) -> None:
        """Report how much is downloaded or, when everything is, unpacked. Call it with the guard held."""
        if not last and time.monotonic() - self.told < _BETWEEN_EVENTS:
            return
        self.told = time.monotonic()
        label, received = self.lock.label, sum(self.received.values())
        if received < self.lock.size:
            self.listener(PackageProgress(package=label, received=received, total=self.lock.size))
            return
        # Packages round the sizes of their files.
        total = max(self.unpacked, sum(package.installed for package in self.lock.packages))
        self.listener(PackageProgress(package=label, received=self.unpacked, total=total, phase="installing"))
