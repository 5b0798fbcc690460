"""Examine the machine: its programs, installed packages, what tests lack, and pins whose releases will vanish."""

from __future__ import annotations

import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from glob import glob
from typing import TYPE_CHECKING, Any

from mlir_matrix.actions.sandbox.gpu_driver import DRIVERS, Driver, driver_release, library_path
from mlir_matrix.base.errors import MatrixError, UsageError
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.catalog.pins import find_release, release_of
from mlir_matrix.environments import interpreter as interpreters
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.selection import of_release
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.state import bytes_in, cost_of, is_downloaded, state_of
from mlir_matrix.execute.eviction import cache_limit
from mlir_matrix.expand.select import choose
from mlir_matrix.fleet.probe import TOOLS, machine_of
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.session import plan_tests

if TYPE_CHECKING:
    from mlir_matrix.toolchain.documents import Doctor, DoctorEnvironment, DoctorGpu, DoctorSuite, VanishingPin

_VERSION = re.compile(r"\d+(?:\.\d+)+")


def examine(session: Session) -> Doctor:
    """Return the report."""
    home, own = session.home, interpreters.own()
    folders = {"packages": home.packages, "artifacts": home.artifacts, "actions": home.actions}
    environments = _environments(session)
    vanishing = [_pin(session, entry, release, name) for entry, release, name in _rolling(session.catalog)]
    suites = [_suite(session, name) for name in session.catalog.suites]
    return {
        "schema": "mlir-matrix/doctor/v1",
        "summary": {
            "environments": dict(sorted(Counter(entry["state"] for entry in environments).items())),
            "tests": {key: sum(entry[key] for entry in suites) for key in ("ready", "to_fetch", "blocked")},
            "vanishing": len(vanishing),
        },
        # That of the program's own virtual environment.
        "python": sys.executable,
        "interpreter": {
            "version": platform.python_version(),
            "path": own.path,
            "libc": own.libc,
            "tag": own.tag,
            "supported": own.tag in interpreters.SUPPORTED,
        },
        "machine": machine_of(home),
        "tools": _tools(),
        "gpus": {name: _gpu(session.catalog, driver) for name, driver in DRIVERS.items()},
        "bazel": _bazel(session),
        "home": {
            "cache": str(home.cache),
            "state": str(home.state),
            "bytes": {name: bytes_in(path) for name, path in folders.items()},
            "actions_limit": cache_limit(),
        },
        "environments": environments,
        "suites": suites,
        "vanishing": vanishing,
    }


def _tools() -> dict[str, dict[str, Any]]:
    with ThreadPoolExecutor(len(TOOLS)) as pool:
        versions = dict(zip(TOOLS, pool.map(_version, TOOLS), strict=True))
    return {name: {"path": shutil.which(name), "version": versions[name], "for": use} for name, use in TOOLS.items()}


def _gpu(catalog: Catalog, driver: Driver) -> DoctorGpu:
    """Return what this machine has and lacks for the targets that need the driver of a GPU."""
    targets = {
        name: entry.document.devices
        for name, entry in catalog.targets.items()
        if any(device.startswith(driver.devices) for device in entry.document.devices)
    }
    wanted = list(dict.fromkeys(device for devices in targets.values() for device in devices))
    library = library_path(driver)
    return {
        "devices": sorted(path for device in wanted for path in glob(device)),
        "library": library,
        "release": driver_release(driver),
        "lacking": [
            *(device for device in wanted if not glob(device)),
            *([] if library else [driver.library]),
        ],
        "targets": sorted(targets),
        "grant": " ".join(f"--device {shlex.quote(device)}" for device in wanted),
    }


def _version(name: str) -> str | None:
    path = shutil.which(name)
    if path is None:
        return None
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search((done.stdout + done.stderr).decode(errors="replace"))
    return found[0] if found else None


def _bazel(session: Session) -> dict[str, Any]:
    """Return the Bazel that runs plans, and why others are not used."""
    from mlir_matrix.bazel.locate import locate

    try:
        return asdict(locate(session, fetch=False))
    except MatrixError as error:
        return {"command": [], "version": "", "where": "", "here": False, "rejected": [str(error)]}


def _environments(session: Session) -> list[DoctorEnvironment]:
    found: list[DoctorEnvironment] = []
    for name, environment in session.environments(session.catalog.environments).items():
        entry: DoctorEnvironment = {
            "name": name,
            "pins": session.pins_of(name),
            "state": state_of(environment, session.home),
        }
        if isinstance(environment, ResolvedEnvironment):
            cost = cost_of([environment], session.home)
            entry |= {"to_fetch": cost.to_fetch, "disk": cost.disk}
        else:
            entry["reason"] = environment.reason
        found.append(entry)
    return found


def _suite(session: Session, name: str) -> DoctorSuite:
    """Count the tests of a suite that can run now, need downloads first, or cannot run, and why."""
    plan = plan_tests(session, choose(session.catalog, [name], pins=session.pins).tests())
    resolved = session.environments(action.environment for action in plan.graph.actions.values())
    lacking = {
        key: environment
        for key, environment in resolved.items()
        if not isinstance(environment, ResolvedEnvironment) or environment.missing(session.home.packages)
    }
    needs = _needs(plan.graph)
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    fetch: set[str] = set()
    for verdict in plan.verdicts.values():
        missing = needs[verdict] & lacking.keys()
        blocked = sorted(key for key in missing if not isinstance(lacking[key], ResolvedEnvironment))
        counts["blocked" if blocked else "to_fetch" if missing else "ready"] += 1
        reasons.update(getattr(lacking[key], "reason", "") for key in blocked[:1])
        fetch |= missing - set(blocked)
    cost = cost_of([each for key in fetch if isinstance(each := lacking[key], ResolvedEnvironment)], session.home)
    return {
        "name": name,
        "tests": len(plan.verdicts),
        "ready": counts["ready"],
        "to_fetch": counts["to_fetch"],
        "blocked": counts["blocked"],
        "reasons": [{"reason": reason, "tests": count} for reason, count in reasons.most_common()],
        "environments_to_fetch": sorted(fetch),
        "bytes_to_fetch": cost.to_fetch,
    }


def _needs(graph: Graph) -> dict[str, frozenset[str]]:
    """Return the environments of each action and of all actions before it."""
    known: dict[str, frozenset[str]] = {}
    # Saves memory: many actions have the same set.
    shared: dict[frozenset[str], frozenset[str]] = {}
    # Actions come after their sources.
    for identifier, action in graph.actions.items():
        found = frozenset({action.environment}).union(*(known[source] for source in action.sources))
        known[identifier] = shared.setdefault(found, found)
    return known


def _rolling(catalog: Catalog) -> Iterator[tuple[Entry[Component], Release, str]]:
    """Yield the rolling releases that pins or suites name, each with its environment if only one pins it."""
    general = catalog.default_pins("")
    for name, entry in catalog.components.items():
        pinned = {general[name]: ""}
        for holder in catalog.environments.values():
            if name in holder.document.components:
                pinned.setdefault(catalog.default_pins(holder.name)[name], holder.name)
        for suite in catalog.suites.values():
            for block in suite.document.blocks:
                varied = (find_release(entry, wanted).release for wanted in block.pins.get(name, ()))
                pinned |= {release: "" for release in varied if release not in pinned}
        for release, environment in pinned.items():
            found = release_of(entry, release)
            if found.durability == "rolling":
                yield entry, found, environment


def _pin(session: Session, entry: Entry[Component], release: Release, environment: str) -> VanishingPin:
    """Return a pin whose release will vanish, and whether that is downloaded and installed."""
    pin: VanishingPin = {
        "component": entry.name,
        "release": release.release,
        "environment": environment,
        "suites": list(release.suites),
        "fetched": False,
        "installed": False,
        "reason": "",
    }
    try:
        found = (
            session.environment(environment) if environment else of_release(session, entry, release).resolve(session)
        )
    except UsageError as error:
        # No environment has the component.
        return pin | {"reason": str(error)}
    if not isinstance(found, ResolvedEnvironment):
        return pin | {"reason": found.reason}
    store = Artifacts(session.home.artifacts)
    downloaded = all(is_downloaded(package, store) for package in found.units)
    return pin | {"fetched": downloaded, "installed": not found.missing(session.home.packages)}
