"""What this machine has, as a file that loads again; and what a file states that is not here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from archspec.cpu import host

from mlir_matrix.base.errors import CatalogError, UsageError
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.models.machines import Has, Machine
from mlir_matrix.catalog.yaml_reader import parse
from mlir_matrix.fleet.machines import find_machine
from mlir_matrix.fleet.probe import differences, probe, to_yaml
from support.catalogs import entry
from support.machines import CATALOG


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("home")
    return Home(cache=folder, state=folder / "state", actions=folder / "actions")


@pytest.fixture(scope="module")
def here(home: Home) -> Has:
    return probe(home, CATALOG)


def test_a_probed_file_is_right_about_this_machine(here: Has, tmp_path: Path) -> None:
    file = tmp_path / "this.yaml"
    file.write_text(to_yaml(here, "this"))
    found = find_machine(CATALOG, str(file))
    assert found.document.has == here
    assert differences(found, here) == []
    assert here.cpu.architecture == os.uname().machine
    assert here.cores == len(os.sched_getaffinity(0))
    assert not set(here.cpu.features) & host().generic.features


def test_the_commented_wishes_are_a_right_part(here: Has) -> None:
    text = to_yaml(here, "this")
    begin = text.index("# wants:")
    wanted = text[:begin] + "\n".join(line.removeprefix("# ") for line in text[begin:].splitlines())
    machine = Machine.model_validate(parse(wanted, "this.yaml").data)
    assert machine.wants.budget_minutes == 60
    assert machine.wants.leave_out[0].match


def test_emulators_are_found_on_path(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("qemu-aarch64", "qemu-img", "podman"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = probe(home, CATALOG)
    assert found.emulators == ("qemu-aarch64",)
    assert found.container_engine == "podman"
    assert found.tools == ()


def test_each_thing_that_is_not_here_is_named(here: Has) -> None:
    text = (
        "description: d\n"
        "has:\n"
        f"  cpu: {{architecture: {here.cpu.architecture}, level: no-level}}\n"
        "  cores: 100000\n"
        "  memory-gib: 1000000\n"
        "  disk-gib: 100000000\n"
        "  gpus: [Voodoo 2]\n"
        "  devices: [/dev/no-such-device]\n"
        "  emulators: [qemu-vax]\n"
        "  tools: [no-such-tool]\n"
    )
    lines = differences(entry("machines", Machine, "box", text), here)
    stated = [line.split(": ", 1)[1].split(" is ")[0] for line in lines]
    assert stated == [
        "cpu.level", "cores", "memory-gib", "disk-gib", "gpus.0", "devices.0", "emulators.0", "tools.0"
    ]  # fmt: skip
    assert (
        lines[1] == f"machines/box.yaml:4:3: cores is 100000; this machine has {here.cores}; write cores: {here.cores}"
    )
    assert lines[-1] == "machines/box.yaml:10:11: tools.0 is no-such-tool; this machine has none; leave it out"


def test_a_machine_of_another_architecture_is_said_so_alone(here: Has) -> None:
    text = "description: d\nhas: {cpu: {architecture: vax, features: [g-float]}, cores: 1, memory-gib: 1, namespaces: false}\n"
    (line,) = differences(entry("machines", Machine, "box", text), here)
    assert "cpu.architecture is vax; this machine has" in line


def test_names_and_files_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no machine 'box'; make a file of it: matrix machine probe"):
        find_machine(CATALOG, "box")
    with pytest.raises(CatalogError, match=r"gone\.yaml: cannot be read: No such file"):
        find_machine(CATALOG, str(tmp_path / "gone.yaml"))
    cut = tmp_path / "cut.yaml"
    cut.write_text("description: d\nhas: {cores: 2")
    with pytest.raises(CatalogError, match=r"cut\.yaml:.*broken YAML"):
        find_machine(CATALOG, str(cut))
