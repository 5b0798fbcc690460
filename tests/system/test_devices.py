"""A target that declares a device: who is granted it, who sees it, and what is said to who is not granted it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.workspace import Workspace

#: Everybody may open it, and without a terminal nothing comes of that.
DEVICE = "/dev/tty"
#: A runner that runs a kernel only where a device can be opened, or where it is not there.
PROBE = """\
#!/bin/sh
case $1 in
--version) echo probe 1.0; exit ;;
sees) test -c "$2" && test -c /dev/null || exit 5 ;;
lacks) test ! -e "$2" || exit 6 ;;
esac
shift 2
exec "$@"
"""
TARGET = """\
description: This machine, where the runner {word} the device.
triple: x86_64-linux-musl
accepts: [object]
codegen: [object]
machine: [x86_64]
runner_environment: probe
runner: [probe, {word}, {device}]
"""
FILES = {
    "toolchains/components/probe.yaml": (
        "description: It looks.\nprovider: host\nprograms: [probe]\ntools: [probe]\nreleases: [{release: '1.0'}]\n"
    ),
    "toolchains/environments/probe.yaml": "description: It looks.\ncomponents: [probe]\n",
    "toolchains/known-good.yaml": "pins: {probe: '1.0'}\n",
    "matrix/targets/with/target.yaml": TARGET.format(word="sees", device=DEVICE) + f"devices: [{DEVICE}]\n",
    # The same environment, hence the same worker.
    "matrix/targets/without/target.yaml": TARGET.format(word="lacks", device=DEVICE),
}
WITH, WITHOUT = (f"mlir/linalg-loops/{target}/transpose" for target in ("with", "without"))
BOTH = "mlir/linalg-loops/with{,out}/transpose"
REASON = f"target with needs {DEVICE}, which is not granted; matrix run --device {DEVICE} grants it"


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    if not os.path.exists(DEVICE):
        pytest.skip(f"this machine has no {DEVICE}")
    for name, text in FILES.items():
        path = tmp_path / "catalog" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "catalog"


@pytest.fixture
def probing(fresh: Callable[[str], Workspace], tmp_path: Path) -> Workspace:
    """A workspace with the runner on its PATH, in which no kernel has run."""
    workspace = fresh("home")
    program = tmp_path / "bin/probe"
    program.parent.mkdir()
    program.write_text(PROBE)
    program.chmod(0o755)
    return replace(workspace, more={**workspace.more, "PATH": f"{program.parent}:{os.environ['PATH']}"})


@pytest.mark.namespaces
def test_only_who_declares_a_device_and_is_granted_it_sees_it(probing: Workspace, catalog: Path) -> None:
    granted = probing.run(BOTH, "--device", DEVICE, catalog=catalog)
    assert granted.outcomes == {WITH: "pass", WITHOUT: "pass"}, granted.told()
    assert len([name for name in granted.actions if name.startswith("run/")]) == 2
    refused = probing.run(BOTH, catalog=catalog)
    assert refused.outcomes == {WITH: "skipped", WITHOUT: "pass"}
    assert refused.tests[WITH]["reason"] == REASON
    # What is granted is no part of the keys of those that do not ask for it.
    assert refused.executed == 0


def test_what_is_said_of_a_device_that_is_not_granted(probing: Workspace, catalog: Path) -> None:
    named = probing("run", WITH, "--catalog", catalog)
    assert (named.code, named.stderr) == (2, f"matrix: no test can run: {REASON}\n")
    plan = probing("plan", BOTH, "--catalog", catalog)
    assert "1 test to run in" in plan.stdout
    assert REASON in " ".join(plan.stdout.split())
    assert "2 tests to run in" in probing("plan", BOTH, "--catalog", catalog, "--device", DEVICE).stdout
    for words, said in (
        (("--device", "/dev/nobody/0"), "--device /dev/nobody/0: this machine has no such device"),
        (("--device", "tty"), "--device tty: expected a device or a folder below /dev"),
        (
            ("--device", DEVICE, "--executor", "bazel"),
            f"--device {DEVICE}: only --executor local grants devices; this is bazel",
        ),
    ):
        done = probing("run", BOTH, "--catalog", catalog, *words)
        assert done.code == 2
        assert done.stderr.startswith(f"matrix: {said}")


def test_the_command_that_repeats_a_failure_grants_it_again(probing: Workspace, catalog: Path) -> None:
    (catalog / "matrix/targets/with/target.yaml").write_text(
        FILES["matrix/targets/with/target.yaml"].replace("sees", "lacks")
    )
    done = probing("run", WITH, "--catalog", catalog, "--device", DEVICE)
    assert done.code == 1
    assert "with exit code 6" in done.stdout
    (command,) = [line for line in done.stdout.splitlines() if "tools/matrix run" in line]
    assert f"--device {shlex.quote(DEVICE)}" in command
