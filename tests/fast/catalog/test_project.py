"""The file of a project: where it is found, what is wrong in it, and what commands take of it."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mlir_matrix.base.errors import CatalogError, UsageError
from mlir_matrix.catalog.project import FILE, find_project_file
from mlir_matrix.catalog.project_file import read_project
from mlir_matrix.cli import options
from mlir_matrix.cli.verbs import verb
from mlir_matrix.plan.request import Limits, SelectionOptions


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a home, and a folder in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MATRIX_PROJECT", raising=False)
    inner = tmp_path / "acme" / "matrix" / "suites"
    inner.mkdir(parents=True)
    return inner


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_nearest_file_upward_is_found_up_to_the_home(folder: Path, tmp_path: Path) -> None:
    assert find_project_file(folder) is None
    outer = written(tmp_path / FILE, "")
    assert find_project_file(folder) == outer
    near = written(tmp_path / "acme" / FILE, "")
    assert find_project_file(folder) == find_project_file(folder.parents[1]) == near
    assert find_project_file(tmp_path) == outer


def test_a_file_above_the_home_is_not_found(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / FILE, "")
    monkeypatch.setenv("HOME", str(tmp_path / "acme"))
    assert find_project_file(folder) is None


def test_a_variable_names_the_file_its_folder_or_none(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / FILE, "")
    named = written(tmp_path / "acme" / FILE, "")
    for value, found in ((named, named), (named.parent, named), ("off", None)):
        monkeypatch.setenv("MATRIX_PROJECT", str(value))
        assert find_project_file(tmp_path) == found
    monkeypatch.setenv("MATRIX_PROJECT", str(folder))
    with pytest.raises(UsageError, match=r"suites: there is no such file; name a matrix\.yaml, or: MATRIX_PROJECT=off"):
        find_project_file(tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(folder / FILE, "")
    os.chown(file, 1000, -1)
    with pytest.raises(UsageError, match=rf"^{file}: this file belongs to another user \(number 1000\)"):
        find_project_file(folder)
    monkeypatch.setenv("MATRIX_PROJECT", str(file))
    assert find_project_file(folder) == file


def test_paths_are_relative_to_the_file(folder: Path, tmp_path: Path) -> None:
    (folder / "build").mkdir()
    written(tmp_path / "matrix/suites/nightly.yaml", "")
    text = (
        "catalogs: ['..', '~']\nsuite: nightly\ntarget: x86_64\npins: {llvm: build/, torch: '2.13'}\nmachine: m.yaml\n"
    )
    text += "limits: {timeout: 3, jobs: 2}\n"
    found = read_project(written(folder / FILE, text))
    assert found.catalogs == (folder.parent, folder.parents[2])
    assert found.pins == (f"llvm={folder}/build", "torch=2.13")
    assert found.tests == ("nightly", "*/*/x86_64/*")
    assert found.machine == f"{folder}/m.yaml"
    assert (found.limits.timeout, found.limits.memory, found.limits.jobs) == (3, None, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("catalogs: [., ../suites]", "1:15: the folder '../suites' is named twice"),
        ("catalogs: [x]", "1:12: there is no folder '{folder}/x'"),
        ("pins: {llvm: ./b}", "1:8: there is no folder '{folder}/b'; build llvm there again, or pin a release"),
        ("limit: {}", "1:1: unknown key 'limit'; did you mean 'limits'?"),
        ("limits: {jobs: 0}", "1:16: 'limits.jobs': expected at least 1, got the number 0"),
        ("limits: {timeout: x}", "1:10: 'limits.timeout': expected a number, got the text 'x'"),
        ("suite: smok", "1:1: there is no suite 'smok'; did you mean 'smoke'?"),
        ("target: x86", "1:1: there is no target 'x86'; did you mean 'x86_64'?"),
        ("machine: x86-64-build", "1:1: there is no machine 'x86-64-build'; did you mean 'x86-64-builder'?"),
        ("pins: {llvn: '22'}", "1:8: there is no component 'llvn'; did you mean 'llvm'?"),
        ("pins: {torch: '1'}", "1:8: torch has no release '1'; it has "),
        ("- x", "1:1: expected keys and values"),
    ],
)
def test_what_is_wrong_has_its_place(folder: Path, text: str, message: str) -> None:
    file = written(folder / FILE, text)
    with pytest.raises(CatalogError) as caught:
        read_project(file)
    assert str(caught.value).startswith(f"{file}:{message.format(folder=folder)}"[:90])


def test_a_target_alone_is_that_of_the_default_suite(folder: Path) -> None:
    assert read_project(written(folder / FILE, "target: x86_64")).tests == ("smoke", "*/*/x86_64/*")


def test_a_target_in_a_mode(folder: Path) -> None:
    assert read_project(written(folder / FILE, "target: aarch64+contract")).tests == ("smoke", "*/*/aarch64+contract/*")


def test_a_project_may_only_set_pins(folder: Path) -> None:
    assert read_project(written(folder / FILE, "pins: {llvm: '22'}")).catalogs == ()


@verb("probe")
@options.tests
@options.catalog
@options.pin
@options.limits
@options.selection
def probe(
    tests: tuple[str, ...],
    catalogs: tuple[Path, ...],
    pins: tuple[str, ...],
    limits: Limits,
    selection: SelectionOptions,
) -> None:
    """Print what a verb gets."""
    click.echo(
        f"{tests} {[path.name for path in catalogs]} {pins} {limits.timeout_s:g} {limits.jobs} {selection.machine}"
    )


def test_a_command_takes_what_it_is_not_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "catalogs: [.]\nsuite: nightly\npins: {llvm: '22', torch: '2'}\nlimits: {timeout: 3, jobs: 2}\nmachine: mine\n"
    )
    written(folder / FILE, text)
    written(folder / "matrix/suites/nightly.yaml", "")
    written(folder / "matrix/machines/mine.yaml", "")
    monkeypatch.chdir(folder)

    def call(*words: str) -> str:
        return CliRunner().invoke(probe, words, catch_exceptions=False).stdout.strip()

    assert call() == "('nightly',) ['suites'] ('llvm=22', 'torch=2') 3 2 mine"
    (folder / "more").mkdir()
    words = ("--catalog", ".", "--catalog", "more", "--pin", "llvm=19", "--timeout", "120", "-j", "1", "--machine", "x")
    assert call("smoke", *words) == "('smoke',) ['suites', 'more'] ('torch=2', 'llvm=19') 120 1 x"
    assert call("--machine", "none").endswith(" 2")
    monkeypatch.setenv("MATRIX_PROJECT", "off")
    assert call("-j", "1") == "() [] () 120 1"


@verb("repeat")
@options.pin
@options.catalog
@options.limits
@click.pass_context
def repeat(context: click.Context, /, pins: tuple[str, ...], catalogs: tuple[Path, ...], limits: Limits) -> None:
    """Print what a command that chooses the releases of llvm takes of the project."""
    assert pins or catalogs or limits
    click.echo(" ".join(options.project_words(context, without={"llvm"})))


def test_a_command_that_runs_anywhere_has_the_options_of_the_project(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But the pins of components that are given, or whose releases it chooses: it may be continued with these words."""
    written(
        folder / FILE, "catalogs: [.]\npins: {llvm: '22', torch: '2', jax: '0'}\nlimits: {timeout: 3, memory: 900}\n"
    )
    monkeypatch.chdir(folder)
    said = CliRunner().invoke(repeat, ["--pin=jax=2", "--memory", "100"], catch_exceptions=False).stdout.split()
    assert said == ["--catalog", str(folder), "--pin", "torch=2", "--timeout", "3"]
    assert options.pinned_by(["--pin", "llvm=1", "x", "--pin=jax=2", "--pin-step=s:llvm=3"]) == {
        "llvm",
        "jax",
        "s:llvm",
    }
