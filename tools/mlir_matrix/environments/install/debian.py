"""From the lock of a release to its prefix: packages are fetched, checked and unpacked at once, on all cores.

Decompressing takes longer than fetching, so that unpacking begins with the first package that is here. The prefix is
made beside its place and moved there when it is complete: what is there is whole.
"""

from __future__ import annotations

import os
import posixpath
import threading
import time
import urllib.parse
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mlir_matrix.environments.fetch.apt_sources import OVERRIDE, find_mirrors, routes, settings
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.fetch.download import AccessError, NotFoundError, Wanted, download, kept
from mlir_matrix.environments.fetch.http import Routes, Transport, shown
from mlir_matrix.environments.install.integrity import write_manifest
from mlir_matrix.environments.install.prefix import find_prefix, save_prefix
from mlir_matrix.environments.install.unpack import Unpacked, UnpackedFile, make_links, unpack
from mlir_matrix.environments.install.workshop import Workshop
from mlir_matrix.environments.interpreter import Interpreter
from mlir_matrix.environments.lockfiles.debian import DebianPackage, DebianRelease
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.events import PackageListener, PackageProgress, ignore
from mlir_matrix.files import Cancelled, beside, locked, unwritable

_CONNECTIONS = 8
#: Threads that unpack; each holds a few decompressed blocks of 24 MiB.
_MOST_UNPACKERS = 4
_POLL = 0.1
_BETWEEN_EVENTS = 0.05

#: Gives the addresses of mirrors; asked only where something has to be fetched.
FindMirrors = Callable[[], Sequence[str]]


def machine_mirrors() -> Sequence[str]:
    """Those of apt's configuration, or of the environment."""
    return find_mirrors().bases


def machine_routes() -> Routes:
    """As apt goes there."""
    return routes(settings())


def install_debian(release: DebianRelease, interpreter: Interpreter, workshop: Workshop) -> None:
    """Install a release, whose patcher is installed. Raises InfrastructureError, Cancelled."""
    # One at a time: each takes all connections and all cores, and is then the sooner of use.
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
    """The prefix of a release, made if it is not there.

    ``patcher``: the folder of what patches, for locks that are ``in_place``.
    ``listener`` hears of bytes fetched, from threads; that it is done or failed is for the caller to tell. Raises
    InfrastructureError, NotFoundError among them, and locking.Cancelled.
    """
    destination = packages / lock.folder
    cancelled = cancelled or threading.Event()
    if destination.is_dir():
        return destination
    try:
        with locked(packages / ".locks" / lock.folder, cancelled):
            # Somebody else may have made it while we waited.
            if not destination.is_dir():
                with beside(destination) as scratch:
                    made = _Provision(lock, artifacts, mirrors, listener, cancelled).into(scratch)
                    _complete(scratch, os.path.realpath(destination), lock, *made, patcher=patcher, cancelled=cancelled)
                    os.rename(scratch, destination)
    except OSError as error:
        raise unwritable(f"{lock.label} cannot be installed", error) from None
    return destination


def _complete(
    scratch: Path,
    place: str,
    lock: DebianRelease,
    files: list[UnpackedFile],
    links: dict[str, str],
    *,
    patcher: Path | None,
    cancelled: threading.Event,
) -> None:
    """Make a prefix of packages that are unpacked, for ``place`` where it is patched."""
    prefix = find_prefix(scratch, lock.programs)
    if lock.in_place:
        from mlir_matrix.catalog.models.toolchains import PATCHER  # few are
        from mlir_matrix.environments.install.patch_elf import complete

        if patcher is None:
            raise InfrastructureError(f"{lock.label} is patched for its place, and there is nothing that patches")
        prefix, files = complete(
            scratch, place, lock, prefix, files, patchelf=patcher / "bin" / PATCHER, cancelled=cancelled
        )
    save_prefix(scratch, prefix)
    write_manifest(scratch, files, links, place=place if lock.in_place else "")


class _Provision:
    """One release on its way."""

    def __init__(
        self,
        lock: DebianRelease,
        artifacts: Artifacts,
        mirrors: FindMirrors,
        listener: PackageListener,
        cancelled: threading.Event,
    ) -> None:
        self._lock = lock
        self._artifacts = artifacts
        self._mirrors = mirrors
        self._bases: Sequence[str] | None = None
        self._listener = listener
        self._cancelled = cancelled
        # Ends the other threads, too, when one has failed.
        self._stop = threading.Event()
        self._transport = Transport(routes=machine_routes)
        self._guard = threading.Lock()
        self._received: dict[str, int] = {}
        self._told = 0.0

    def into(self, scratch: Path) -> tuple[list[UnpackedFile], dict[str, str]]:
        """Fill a folder; gives the files and the links in it."""
        fetchers = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="fetch")
        unpackers = ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_UNPACKERS), thread_name_prefix="unpack")
        try:
            done = self._run(scratch, fetchers, unpackers)
        finally:
            self._stop.set()
            # Threads that wait for bytes would wait on.
            self._transport.abort()
            for pool in (fetchers, unpackers):
                pool.shutdown(wait=True, cancel_futures=True)
            self._transport.close()
        ordered = [done[package.name] for package in self._lock.packages]
        links = make_links(scratch, (link for each in ordered for link in each.links))
        return [file for each in ordered for file in each.files], links

    def _run(self, scratch: Path, fetchers: ThreadPoolExecutor, unpackers: ThreadPoolExecutor) -> dict[str, Unpacked]:
        fetching: dict[Future[Path], DebianPackage] = {}
        unpacking: dict[Future[Unpacked], DebianPackage] = {}
        done: dict[str, Unpacked] = {}
        # The biggest first: it is unpacked the longest.
        for package in sorted(self._lock.packages, key=lambda package: -package.size):
            fetching[fetchers.submit(self._fetch, package)] = package
        while fetching or unpacking:
            waiting: list[Future[Any]] = [*fetching, *unpacking]
            ready, _ = wait(waiting, timeout=_POLL, return_when=FIRST_COMPLETED)
            if self._cancelled.is_set():
                raise Cancelled
            for future in [each for each in unpacking if each in ready]:
                done[unpacking.pop(future).name] = future.result()
            for arrived in [each for each in fetching if each in ready]:
                package = fetching.pop(arrived)
                name = f"{self._lock.label}: {package.label}"
                work = partial(unpack, arrived.result(), scratch, archive=name, cancelled=self._stop)
                unpacking[unpackers.submit(work)] = package
        self._tell(last=True)
        return done

    def _fetch(self, package: DebianPackage) -> Path:
        """The package in the store, its hash checked."""
        name, file = f"{self._lock.label}: {package.label}", posixpath.basename(package.path)
        wanted = Wanted(name=name, sha256=package.sha256, size=package.size, file=file)
        found = kept(wanted, self._artifacts, cancelled=self._stop) or self._download(package, wanted)
        self._progress(package, package.size, 0)
        return found

    def _download(self, package: DebianPackage, wanted: Wanted) -> Path:
        with self._guard:
            if self._bases is None:
                self._bases = tuple(self._mirrors())
            bases = self._bases
        # As mirrors have it: '+' and '~' as they are.
        path = urllib.parse.quote(package.path, safe="/+~")
        addresses = tuple(f"{base.rstrip('/')}/{path}" for base in bases)
        try:
            return download(
                replace(wanted, addresses=addresses),
                self._artifacts,
                transport=self._transport,
                progress=partial(self._progress, package),
                cancelled=self._stop,
            )
        except NotFoundError:
            raise NotFoundError(
                f"{wanted.name}: {' and '.join(map(shown, bases))} does not have {package.path}; {package.suite} may have a newer "
                f"one by now. Name a mirror that has it in {OVERRIDE}, bring it along with --from DIR, or lock what is there: "
                f"matrix toolchain lock {self._lock.component}"
            ) from None
        except AccessError as error:
            raise InfrastructureError(
                f"{error}. Name a mirror that can be reached in apt's configuration or in {OVERRIDE}, "
                "or bring the packages along with: matrix toolchain fetch --from DIR"
            ) from None

    def _progress(self, package: DebianPackage, received: int, _total: int) -> None:
        self._received[package.name] = received
        self._tell()

    def _tell(self, *, last: bool = False) -> None:
        with self._guard:
            if not last and time.monotonic() - self._told < _BETWEEN_EVENTS:
                return
            self._told = time.monotonic()
            received = sum(self._received.values())
            self._listener(PackageProgress(package=self._lock.label, received=received, total=self._lock.size))
