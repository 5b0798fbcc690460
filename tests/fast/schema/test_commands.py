"""A new catalog: its files, what they name, and what is refused."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlir_matrix import __version__
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.paths import find_home, repository
from mlir_matrix.expand.select import choose
from mlir_matrix.plan.session import session_of
from mlir_matrix.schema.commands import init_command as command
from mlir_matrix.schema.commands import new_command
from mlir_matrix.schema.export import FILES

_SCHEMA = re.compile(r"# yaml-language-server: \$schema=(\S+)")


def init(folder: Path) -> str:
    done = CliRunner().invoke(command, [str(folder)])
    if done.exception is not None:
        raise done.exception
    return done.output


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new project, which no test changes."""
    folder = tmp_path_factory.mktemp("project")
    init(folder)
    return folder


def test_a_new_catalog(tmp_path: Path) -> None:
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "README.md").write_text("mine")
    said = init(folder)
    session = session_of([repository(), folder], find_home())
    tests = choose(session.catalog, ["nightly"]).tests()
    assert {test.workload for test in tests if test.selected} == {"axpy"}
    assert said.endswith(f"try: cd '{folder}' && {Path.cwd()}/tools/matrix run\n")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert f"{len(files) - 1} files written" in said
    assert not [path for path in files if b"@VERSION@" in path.read_bytes()]
    assert f"mlir-matrix[site]=={__version__}" in (folder / ".github/workflows/matrix.yml").read_text()


def test_every_file_of_it_names_a_schema(project: Path) -> None:
    for path in (path for room in ("matrix", "golden") for path in (project / room).rglob("*.yaml")):
        found = _SCHEMA.match(path.read_text())
        assert found, path
        assert (path.parent / found[1]).resolve().is_relative_to(project)
        assert (path.parent / found[1]).is_file()
    assert {path.stem for path in (project / "docs/schemas").iterdir()} == set(FILES)


@pytest.mark.parametrize("name", ["matrix/suites/nightly.yaml", "docs/schemas/suite.json"])
@pytest.mark.parametrize("link", [False, True])
def test_existing_files_stay(tmp_path: Path, name: str, link: bool) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.symlink_to("nowhere") if link else path.write_text("mine")
    with pytest.raises(UsageError, match=f"{name} exists; nothing was written"):
        init(tmp_path)
    assert [found for found in tmp_path.rglob("*") if not found.is_dir()] == [path]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InfrastructureError, match="cannot be written"):
        init(tmp_path / "file")


@pytest.mark.parametrize("kind", ["workload", "framework", "pipeline", "target", "step", "suite"])
def test_a_new_entry_can_run_at_once(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    shutil.copytree(project, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path / "docs")
    said = CliRunner().invoke(new_command, [kind, "my-entry"], catch_exceptions=False).output.splitlines()
    written = [Path(line.removeprefix("wrote ")) for line in said[:-1]]
    assert all(path.is_file() and path.is_relative_to(tmp_path) for path in written)
    for path in written:
        if path.suffix == ".yaml":
            found = _SCHEMA.match(path.read_text())
            assert found, path
            assert (path.parent / found[1]).is_file()
    (words,) = said[-1:]
    test = shlex.split(words.partition(" run ")[2])[0]
    session = session_of([repository(), tmp_path], find_home())
    assert [found.selected for found in choose(session.catalog, [test]).tests()] in ([True], [True, True])
    with pytest.raises(UsageError, match="exists; nothing was written"):
        CliRunner().invoke(new_command, [kind, "my-entry"], catch_exceptions=False)


def test_a_new_entry_goes_where_it_is_told(tmp_path: Path) -> None:
    said = CliRunner().invoke(new_command, ["suite", "mine", "--into", str(tmp_path)], catch_exceptions=False).output
    assert (tmp_path / "matrix/suites/mine.yaml").is_file()
    assert said.endswith(f"try: tools/matrix run mine --catalog {tmp_path}\n")
    with pytest.raises(UsageError, match=r"'\.\./x' is not a name"):
        CliRunner().invoke(new_command, ["suite", "../x", "--into", str(tmp_path)], catch_exceptions=False)
