"""Find host tools: check their versions, identify them by their bytes, and run them without a PATH."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from mlir_matrix.actions import contract
from mlir_matrix.actions.runtime import programs
from mlir_matrix.base.paths import find_home
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component
from mlir_matrix.catalog.yaml_reader import parse
from mlir_matrix.environments import host
from mlir_matrix.environments.host import HostTool, find_tool
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment, resolve
from mlir_matrix.environments.state import cost_of
from mlir_matrix.execute.worker_process import worker_command
from support.programs import LOST_LIBRARY, unloadable

FILE = """\
description: A tool.
provider: host
programs: [say]
releases:
  - {release: "3.11"}
"""


def component(text: str = FILE) -> Entry[Component]:
    source = parse(text, "toolchains/components/tool.yaml")
    return Entry(name="tool", document=Component.model_validate(source.data), source=source, root=Path(), folder=Path())


def resolved(text: str = FILE) -> ResolvedEnvironment | UnavailableEnvironment:
    entry = component(text)
    return resolve("x", releases=[(entry, entry.document.releases[0])], lock_folders=())


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def say(folder: Path, version: str, *, name: str = "say") -> Path:
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{version}'\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("version", ["Tool 3.11.2", "3.11", "tool version v3.11-rc", "Tool\n 3.11.0 (x)"])
def test_a_tool_that_fits(path: Path, version: str) -> None:
    program = say(path, version)
    found = resolved()
    assert isinstance(found, ResolvedEnvironment)
    (tool,) = found.prefixes
    assert isinstance(tool, HostTool)
    assert tool.label == "tool 3.11"
    assert tool.programs[0].path == str(program)
    assert tool.programs[0].version == f"{version}\n"
    assert not found.missing(path)
    assert cost_of([found], find_home()).here


@pytest.mark.parametrize("version", ["Tool 13.11", "Tool 3.110", "Tool 1.3.11", "Tool 3.1.1", "none"])
def test_another_version(path: Path, version: str) -> None:
    program = say(path, version)
    found = resolved()
    assert isinstance(found, UnavailableEnvironment)
    assert found.reason == (
        f"tool 3.11 is not on this machine: {program} reports '{version}'; "
        "put a 'say' on PATH whose --version reports 3.11"
    )


def test_a_tool_that_does_not_start(path: Path) -> None:
    change, said = LOST_LIBRARY
    program = unloadable(path / "say", change)
    found = resolved()
    assert isinstance(found, UnavailableEnvironment)
    assert f"tool 3.11 is not on this machine: a program does not start: {program}: {said}" in found.reason


def test_no_tool(path: Path) -> None:
    found = resolved()
    assert isinstance(found, UnavailableEnvironment)
    assert "no program 'say' on PATH" in found.reason
    assert find_tool("tool", "3.11", ()) == (
        "tool 3.11 cannot be found on PATH: the component file names no 'programs'"
    )


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 3\n", "#!/no/such/interpreter\n", "#!/bin/sh\nkill -9 $$\n"])
def test_a_tool_that_does_not_run(path: Path, script: str) -> None:
    (path / "say").write_text(script)
    (path / "say").chmod(0o755)
    assert isinstance(resolved(), UnavailableEnvironment)


def test_the_digest_is_that_of_its_bytes_and_words(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of where it is."""

    def digest() -> str:
        found = resolved()
        assert isinstance(found, ResolvedEnvironment)
        return found.digest

    say(path, "Tool 3.11.2")
    first = digest()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    say(elsewhere, "Tool 3.11.2")
    monkeypatch.setenv("PATH", str(elsewhere))
    assert digest() == first
    say(elsewhere, "Tool 3.11.3 ")
    assert digest() != first


def test_the_digest_of_a_script_covers_what_it_may_call(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def digest() -> str:
        found = find_tool("tool", "3.11", ["say"])
        assert isinstance(found, HostTool)
        return found.digest

    script = say(path, "Tool 3.11.2")
    first = digest()
    grep = say(path, "another grep", name="grep")
    monkeypatch.setattr(host, "needed_by", lambda program: [program, str(grep)])
    os.utime(script, (1, 1))
    assert digest() != first


def test_several_programs_of_a_release(path: Path) -> None:
    say(path, "Tool 3.11.2")
    more = say(path, "Tool 3.11.2", name="more")
    found = resolved(FILE.replace('{release: "3.11"}', '{release: "3.11", programs: [say, more]}'))
    assert isinstance(found, ResolvedEnvironment)
    assert found.host_programs() == [f"say@3.11={path}/say", f"more@3.11={more}"]


def test_actions_run_it_by_its_path(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path is on the worker's command line and nowhere else."""
    say(path, "Tool 3.11.2")
    found = resolved()
    assert isinstance(found, ResolvedEnvironment)
    command = worker_command(found, store=tmp_path, bytecode=tmp_path / "bytecode", arguments=["action.json"])
    at = command.index("--program")
    assert command[at + 1 :] == [f"say@3.11={path}/say", "action.json"]
    monkeypatch.setitem(contract.programs, "say", ("3.11", f"{path}/say"))
    assert (programs.has("say"), programs.release("say"), programs.command("say")) == (True, "3.11", [f"{path}/say"])


def test_the_worker_takes_it_from_its_command_line(path: Path, tmp_path: Path) -> None:
    """The bootstrap's own words, in a real interpreter."""
    say(path, "Tool 3.11.2")
    found = resolved()
    assert isinstance(found, ResolvedEnvironment)
    bootstrap = worker_command(found, store=tmp_path, bytecode=tmp_path, arguments=[])
    at = next(index for index, word in enumerate(bootstrap) if word.endswith("bootstrap.py"))
    probe = tmp_path / "probe.py"
    text, _, _ = Path(bootstrap[at]).read_text().partition("    sys.exit(main(")
    text += "    print(__import__('json').dumps(programs))\n"
    assert "os.path.abspath(__file__)" in text
    probe.write_text(text.replace("os.path.abspath(__file__)", repr(bootstrap[at])))
    done = subprocess.run(
        [*bootstrap[:at], str(probe), *bootstrap[at + 1 :]],
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {"say": ["3.11", f"{path}/say"]}
