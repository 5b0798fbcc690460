"""What this machine has, what is fetched, what is missing for which tests, which pins are about to vanish."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlir_matrix.actions.runtime.isolation import NOTHING_HELD
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.catalog.pins import find_release, release_of
from mlir_matrix.environments import interpreter as interpreters
from mlir_matrix.environments.cost import cost_of
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import MatrixError, UsageError
from mlir_matrix.execute.worker_process import bound
from mlir_matrix.expand.select import choose
from mlir_matrix.paths import Home
from mlir_matrix.plan.graph import Graph
from mlir_matrix.session import Session
from mlir_matrix.toolchains.names import bytes_in, is_downloaded, of_release, state_of

SCHEMA = "mlir-matrix/doctor/v1"
#: Programs of the machine, what they are for, and how they say their version. None is needed to run the suite smoke.
TOOLS = {
    "apt-get": ("locking Debian packages", ("--version",)),
    "git": ("the provider source", ("--version",)),
    "cmake": ("the provider source", ("--version",)),
    "ninja": ("the provider source", ("--version",)),
    "c++": ("the provider source", ("--version",)),
    "ccache": ("the provider source, to build the same again faster", ("--version",)),
    "docker": ("running actions in containers", ("--version",)),
    "bazel": ("running plans by Bazel", ("--version",)),
    "nvidia-smi": ("GPUs", ("--version",)),
}
_VERSION = re.compile(r"\d+(?:\.\d+)+")


def examine(session: Session) -> dict[str, Any]:
    """Everything, as a value that ``json`` can write; keys may join, these stay."""
    home = session.home
    return {
        "schema": SCHEMA,
        # The interpreter that this program runs in, which is of an environment of its own.
        "python": sys.executable,
        "interpreter": _interpreter(),
        "machine": _machine(home),
        "tools": _tools(),
        "bazel": _bazel(session),
        "home": {
            "cache": str(home.cache),
            "state": str(home.state),
            "bytes": {name: bytes_in(path) for name, path in _folders(session).items()},
        },
        "environments": _environments(session),
        "suites": [_suite(session, name) for name in session.catalog.suites],
        "vanishing": _vanishing(session),
    }


def _interpreter() -> dict[str, Any]:
    """What environments are made for here."""
    own = interpreters.own()
    return {
        "version": platform.python_version(),
        "path": own.path,
        "libc": own.libc,
        "tag": own.tag,
        "supported": own.tag in interpreters.SUPPORTED,
    }


def _machine(home: Home) -> dict[str, Any]:
    cache = home.cache
    alone = ResolvedEnvironment(name="python", interpreter=interpreters.own(), packages=())
    lost = bound(alone, store=home.packages, bytecode=home.bytecode)["lost"]
    there = next(path for path in (cache, *cache.parents) if path.exists())
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "free_bytes": shutil.disk_usage(there).free,
        "namespaces": lost != NOTHING_HELD,
        # What actions can do here that they should not be able to, as a clause; empty where that is nothing.
        "isolation_lost": lost,
    }


def _tools() -> dict[str, dict[str, Any]]:
    with ThreadPoolExecutor(len(TOOLS)) as pool:
        versions = pool.map(lambda name: _version(name, TOOLS[name][1]), TOOLS)
    return {
        name: {"path": shutil.which(name), "version": version, "for": TOOLS[name][0]}
        for name, version in zip(TOOLS, versions, strict=True)
    }


def _version(name: str, arguments: tuple[str, ...]) -> str | None:
    path = shutil.which(name)
    if path is None:
        return None
    try:
        done = subprocess.run([path, *arguments], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    # Whoever's language it is in.
    found = _VERSION.search((done.stdout + done.stderr).decode(errors="replace"))
    return found[0] if found else None


def _bazel(session: Session) -> dict[str, Any]:
    """The Bazel that plans would be run by, and why no other."""
    from mlir_matrix.toolchains.bazel import locate

    try:
        return asdict(locate(session, fetch=False))
    except MatrixError as error:
        return {"command": [], "version": "", "where": "", "here": False, "rejected": [str(error)]}


def _folders(session: Session) -> dict[str, Path]:
    home = session.home
    return {"packages": home.packages, "artifacts": home.artifacts, "actions": home.actions}


def _environments(session: Session) -> list[dict[str, Any]]:
    found = []
    for name, environment in session.environments(session.catalog.environments).items():
        entry: dict[str, Any] = {
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


def _suite(session: Session, name: str) -> dict[str, Any]:
    """How many of a suite's tests can run here now, need something fetched first, or cannot run, and why."""
    plan = session.plan(choose(session.catalog, [name], pins=session.pins).tests())
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
    """The environments that each action, and all before it, runs in."""
    known: dict[str, frozenset[str]] = {}
    # Many actions have the same.
    shared: dict[frozenset[str], frozenset[str]] = {}
    # Sources come before what reads them.
    for identifier, action in graph.actions.items():
        found = frozenset({action.environment}).union(*(known[source] for source in action.sources))
        known[identifier] = shared.setdefault(found, found)
    return known


def _vanishing(session: Session) -> list[dict[str, Any]]:
    """Pins that will vanish: whether their archives are kept, by which they could be made again, and what is installed."""
    return [
        {
            "component": entry.name, "release": release.release, "environment": environment,
            "suites": list(release.suites), **_kept(session, entry, release, environment),
        }
        for entry, release, environment in _rolling(session.catalog)
    ]  # fmt: skip


def _rolling(catalog: Catalog) -> Iterator[tuple[Entry[Component], Release, str]]:
    """Releases that pins or suites name and that will vanish from where they come from.

    With each the environment, where only one keeps to it.
    """
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


def _kept(session: Session, entry: Entry[Component], release: Release, environment: str) -> dict[str, Any]:
    try:
        thing = (
            session.environment(environment) if environment else of_release(session, entry, release).resolve(session)
        )
    except UsageError as error:
        # Nothing says what belongs to it: nobody can fetch it, and no test has it.
        return {"fetched": False, "installed": False, "reason": str(error)}
    if not isinstance(thing, ResolvedEnvironment):
        return {"fetched": False, "installed": False, "reason": thing.reason}
    store = Artifacts(session.home.artifacts)
    kept, here = all(is_downloaded(unit, store) for unit in thing.units), not thing.missing(session.home.packages)
    return {"fetched": kept, "installed": here, "reason": ""}
