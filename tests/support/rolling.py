"""A catalog on disk whose tests are quick: IR tests of steps that a script does, which comes as packages of several releases."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mlir_matrix.environments.lockfiles.debian import debian_lock_file, write_debian_lock
from support import debs

_REPOSITORY = Path(__file__).resolve().parents[2] / "toolchains"

COMPONENT = """\
description: A script of Debian packages.
provider: deb
packages: [{name}]
programs: [opt/t/bin]
releases:
{releases}"""
STEP = """\
description: what a script makes of it
environment: {environment}
accepts: [linalg]
passes: {passes}
variants: [{{when: {{tool: "<5"}}}}]
"""
KNOWN_GOOD = """\
# What is pinned here.
pins:
  filecheck: 1.0.6  # by hand
  idle: "1.0"
  more: "1.0"
  numpy: 2.4.6
  # The one that is rolled.
  tool: "1.0"  # for a while
environments:
  own: {tool: "1.0"}
passed:
  - {suite: nightly, as_expected: 1, total: 2, date: "2026-01-02",
     outcomes: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}
  - {suite: smoke, as_expected: 3, total: 3, date: "2026-01-02",  # long ago
     outcomes: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb}
"""
#: Steps' tests by name: ``tool`` is what rolls, ``own`` keeps to a release of its own.
TESTS = ("mlir/count/ir/one", "mlir/count/ir/two", "mlir/keep/ir/one")
#: What a release's ``mlir-opt`` does with the file that it is given, by the shell alone: an action sees no other program.
COPY = 'for out; do :; done; while IFS= read -r line; do printf "%s\\n" "$line"; done < "$1" > "$out"'
#: Fails in its passes; what it only parses it copies.
BREAK = f"""case "$*" in *--pass-pipeline=*) while read -r line; do
case "$line" in *two*) echo "error: two is too much"; exit 1;; esac; done < "$1";; esac; {COPY}"""
#: Releases of ``tool`` and what they do. Those from 5 on have no variant of the steps; the last has no lock.
SCRIPTS = {"1.0": COPY, "2.0": f'{COPY} && echo // 2 >> "$out"', "3.0": BREAK, "5.0": COPY}
UNLOCKED = "4.0"


def listed(*releases: str) -> str:
    """Releases as a component's file has them."""
    return "".join(f'  - {{release: "{release}", suites: [sid]}}\n' for release in releases)


def component(name: str, *releases: str) -> str:
    """The file of a component with these releases."""
    return COMPONENT.format(name=name, releases=listed(*releases))


def files(*releases: str) -> dict[str, str]:
    """The catalog with these releases of ``tool``."""
    return {
        "recipes/kinds/linalg.yaml": "description: IR\nfile: linalg.mlir\n",
        "recipes/steps/count/step.yaml": STEP.format(environment="tool", passes="cse"),
        "recipes/steps/count/tests/one.mlir": "// CHECK: one\n",
        "recipes/steps/count/tests/two.mlir": "// CHECK: two\n",
        "recipes/steps/keep/step.yaml": STEP.format(environment="own", passes="canonicalize"),
        "recipes/steps/keep/tests/one.mlir": "// CHECK: one\n",
        "matrix/suites/smoke.yaml": 'description: all\nsteps: ["*"]\n',
        "matrix/suites/nightly.yaml": "description: some\nsteps: [count]\n",
        "toolchains/components/tool.yaml": component("tool", *releases),
        "toolchains/components/more.yaml": component("more", "1.0", "2.0"),
        "toolchains/components/idle.yaml": component("idle", "1.0", "2.0"),
        "toolchains/environments/tool.yaml": "description: d\ncomponents: [tool, more]\n",
        "toolchains/environments/own.yaml": "description: d\ncomponents: [tool]\n",
        "toolchains/known-good.yaml": KNOWN_GOOD,
    }


def write(root: Path, texts: Mapping[str, str], mirror: debs.Mirror) -> None:
    """Write the catalog, with the locks of what is in ``mirror`` then."""
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    locks = root / "toolchains" / "locks"
    # What judges is real.
    for name in ("filecheck", "numpy"):
        for room in ("components", "environments"):
            shutil.copy(_REPOSITORY / room / f"{name}.yaml", root / "toolchains" / room)
        locks.mkdir(exist_ok=True)
        for path in (_REPOSITORY / "locks").glob(f"{name}-cp*.txt"):
            shutil.copy(path, locks)
    # Where no interpreter of this machine is one that they are locked for.
    for path in (_REPOSITORY / "locks").glob("cpython-*.yaml"):
        shutil.copy(path, locks)
    for release, does in SCRIPTS.items():
        _lock(mirror, locks, "tool", release, "mlir-opt", does)
    for release in ("1.0", "2.0"):
        _lock(mirror, locks, "more", release, "more", "exit 0")


def _lock(mirror: debs.Mirror, locks: Path, name: str, release: str, program: str, does: str) -> None:
    # Each with bytes of its own.
    script = f"#!/bin/sh\n# {release}\n{does}\n".encode()
    member = debs.Member(f"./opt/t/bin/{program}", script, mode=0o755)
    package = mirror.add(name, debs.folder("./opt/t/bin"), member, version=f"1:{release}-1")
    lock = replace(debs.release(mirror, count=1), component=name, release=release, packages=(package,))
    write_debian_lock(debian_lock_file(locks, name, release), lock, made=datetime.date(2026, 1, 2))
