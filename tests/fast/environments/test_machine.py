"""Name an architecture as lock files, wheels, Debian and loaders do, on any host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from mlir_matrix.environments.fetch.pip import options_for
from mlir_matrix.environments.installed.elf import read_elf
from mlir_matrix.environments.machine import HOST, Architecture

PACKAGE = Path(__file__).resolve().parents[3] / "tools" / "mlir_matrix"


def test_the_host_is_named_as_its_programs_are() -> None:
    """By what the linker has written into the interpreter, and what pip accepts."""
    elf = read_elf(Path(sys.executable).resolve())
    assert elf is not None
    data = Path(sys.executable).resolve().read_bytes()
    assert f"/{HOST.linked_loader}\0".encode() in data
    asked = [sys.executable, "-P", "-m", "pip", "debug", "--verbose"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60)
    tags = {line.strip().rpartition("-")[2] for line in done.stdout.splitlines()}
    assert tags & set(HOST.wheel_platforms)
    assert set(HOST.wheel_platforms) <= set(options_for("cp314"))


@pytest.mark.parametrize(
    ("name", "debian", "loader", "first"),
    [
        ("x86_64", "amd64", "ld-linux-x86-64.so.2", "lib64/ld-linux-x86-64.so.2"),
        ("aarch64", "arm64", "ld-linux-aarch64.so.1", "lib/ld-linux-aarch64.so.1"),
        ("riscv64", "riscv64", "ld-linux-riscv64-lp64d.so.1", "lib/ld-linux-riscv64-lp64d.so.1"),
    ],
)
def test_architectures_of_debian(name: str, debian: str, loader: str, first: str) -> None:
    machine = Architecture(name)
    assert (machine.debian, machine.loader, machine.loaders[0]) == (debian, loader, first)
    assert machine.libraries == (f"lib/{name}-linux-gnu", f"usr/lib/{name}-linux-gnu")


@hypothesis.given(strategies.from_regex(r"[a-z][a-z0-9_]{1,20}", fullmatch=True))
def test_names_lead_back_to_the_machine(name: str) -> None:
    """So that files and tags of two architectures are never the same."""
    machine = Architecture(name)
    assert machine.platform.removeprefix("linux-") == name
    assert all(tag.endswith(f"_{name}") for tag in machine.wheel_platforms)
    assert len(set(machine.loaders)) == len(machine.loaders)
    assert all(path.rpartition("/")[2] == machine.loader for path in machine.loaders)


def test_no_other_module_of_environments_names_an_architecture() -> None:
    texts = {path.name: path.read_text() for path in (PACKAGE / "environments").rglob("*.py")}
    found = {name for name, text in texts.items() if "x86_64" in text or "amd64" in text}
    # Two of them have examples in docstrings.
    assert found == {"machine.py", "wheels.py", "debian.py"}
