"""Somebody's catalog with releases of Debian packages and a wheel, made here and served."""

from __future__ import annotations

import datetime
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlir_matrix.base.paths import find_home
from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.lockfiles.debian import DebianRelease, debian_lock_file, write_debian_lock
from mlir_matrix.environments.lockfiles.wheels import WheelPackage, lock_file, write_lock
from support import debs, rolling, wheelhouse
from support.downstream import tree
from support.loopback import Behaviour, serve
from support.workspace import Finished, Workspace

FILES = {
    "components/tool.yaml": """\
description: A program of Debian packages.
provider: deb
tools: [say]
packages: [tool]
programs: [opt/t/bin]
releases:
  - {release: "1.0", suites: [sid]}
  - {release: "2.0", suites: [sid]}
""",
    "components/thing.yaml": """\
description: A wheel.
tools: [hello]
releases:
  - {release: "1.0"}
""",
    "environments/thing.yaml": "description: The wheel alone.\ncomponents: [thing]\n",
    "environments/both.yaml": "description: All that there is.\ncomponents: [thing, tool]\n",
}
NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True)
class FakeIndex:
    """Somebody's home, their catalog, and where what it names is to be had."""

    workspace: Workspace
    catalog: Path
    server: Behaviour
    lock: DebianRelease
    wheel: WheelPackage

    def __call__(self, verb: str, *arguments: str | Path, code: int = 0) -> Finished:
        done = self.workspace("toolchain", verb, *arguments, "--catalog", self.catalog)
        assert done.code == code, (done.code, done.stdout, done.stderr)
        return done

    @property
    def prefix(self) -> Path:
        return self.workspace.home / "packages" / self.lock.folder

    @property
    def site(self) -> Path:
        return self.workspace.home / "packages" / self.wheel.folder_for(own().tag)

    def artifact(self, unit: str) -> Path:
        value = self.wheel.hashes[0] if unit == "thing" else self.lock.packages[-1].sha256
        return self.workspace.home / "artifacts" / value

    def installed(self) -> set[str]:
        return {path.name for path in (self.workspace.home / "packages").iterdir()} - {".locks"}

    def kept(self) -> dict[str, object]:
        """What is in the home, without locks, and without catalogs that are kept if they were not changed lately."""
        found = tree(self.workspace.home)
        return {name: what for name, what in found.items() if ".locks" not in name and "kept-catalogs" not in name}

    def elsewhere(self, home: Path, **more: str) -> FakeIndex:
        return replace(self, workspace=Workspace(home, more={**self.workspace.more, **more}))


@contextmanager
def open_index(folder: Path) -> Iterator[FakeIndex]:
    """Locked, and nothing fetched."""
    catalog, www = folder / "catalog", folder / "www"
    locks = catalog / "toolchains" / "locks"
    locks.mkdir(parents=True)
    for name, text in FILES.items():
        (catalog / "toolchains" / name).parent.mkdir(exist_ok=True)
        (catalog / "toolchains" / name).write_text(text)
    mirror = debs.Mirror(www / "debian")
    lock = debs.release(mirror)
    # Large enough to be interrupted in the middle of it.
    large = mirror.add("large", debs.Member("./usr/share/large", random.Random(1).randbytes(1_000_000)))
    lock = replace(lock, packages=(*lock.packages, large))
    write_debian_lock(debian_lock_file(locks, "tool", "2.0"), lock, made=datetime.date(2026, 1, 2))
    wheels = www / "wheels"
    wheels.mkdir()
    made = wheelhouse.wheel(wheels, "thing", more={"bin/hello": b"#!/bin/sh\necho hello, $1\n"})
    with serve(www) as server:
        more = {name: "" for name in os.environ if name.startswith("PIP_")} | {
            "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "no_proxy": "*",
            "MATRIX_DEB_MIRROR": f"{server.address}/debian",
            # Compiling all of it anew for each home would take longer than all the rest.
            "PYTHONPYCACHEPREFIX": str(find_home().bytecode),
        }  # fmt: skip
        sized = replace(made, size=(wheels / "thing-1.0-py3-none-any.whl").stat().st_size, installed=1000)
        write_lock(lock_file(locks, "thing", own().tag), [sized], made_by="us", pins={"thing": "1.0"})
        yield FakeIndex(Workspace(folder / "home", more=more), catalog, server, lock, made)


@contextmanager
def open_rolling(folder: Path, environments: Any, texts: Mapping[str, str]) -> Iterator[Workspace]:
    """A home for a catalog of :mod:`rolling`: all that is there is what judges, which is real."""
    judging = environments.require("filecheck")
    (folder / "home" / "packages").mkdir(parents=True)
    for unit in judging.units:
        name = unit.folder_for(judging.interpreter.tag)
        (folder / "home" / "packages" / name).symlink_to(environments.packages / name)
    rolling.write(folder / "catalog", texts, debs.Mirror(folder / "www"))
    with serve(folder / "www") as server:
        more = {"MATRIX_DEB_MIRROR": server.address, "no_proxy": "*", "PYTHONPYCACHEPREFIX": str(find_home().bytecode)}
        yield Workspace(folder / "home", root=folder / "catalog", more=more)


def flip(path: Path) -> None:
    """One byte, and the time that the file had."""
    status, data = path.stat(), bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
