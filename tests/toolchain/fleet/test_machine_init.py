"""The folder of a worker; that a worker starts there, ``tests/system/test_buildbot.py`` shows."""

from __future__ import annotations

import configparser
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mlir_matrix.base.errors import MatrixError
from mlir_matrix.fleet.commands import init_command as command


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.touch(0o600)
    file.write_text("p%w$'\"\n")
    return file


def init(folder: Path, secret: Path, **options: str) -> Result:
    given = {"master": "lab.example.org", "name": "avx512", "password-file": str(secret), **options}
    words = [f"--{name}={value}" for name, value in given.items()]
    return CliRunner().invoke(command, [f"--buildbot={folder}", *words], catch_exceptions=True)


def test_the_password_is_in_one_file_that_only_its_owner_reads(tmp_path: Path, secret: Path) -> None:
    folder = tmp_path / 'odd $name "quoted" 100%'
    assert init(folder, secret, admin="Ada <ada@example.org>").exit_code == 0
    having = [path.name for path in folder.rglob("*") if path.is_file() and "p%w$" in path.read_text()]
    assert having == ["password"]
    assert stat.S_IMODE((folder / "password").stat().st_mode) == 0o600
    compile((folder / "buildbot.tac").read_text(), "buildbot.tac", "exec")
    assert "Worker('lab.example.org', 9989, 'avx512'" in (folder / "buildbot.tac").read_text()
    unit = configparser.RawConfigParser()
    unit.read(folder / "buildbot-worker-avx512.service")
    assert unit["Service"]["ExecStart"].endswith('odd $$name \\"quoted\\" 100%%"')
    assert (folder / "info" / "admin").read_text() == "Ada <ada@example.org>\n"
    assert "cores: " in (folder / "info" / "host").read_text()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"master": "lab.example.org:port"}, "--master lab.example.org:port: expected HOST or HOST:PORT"),
        ({"master": "a b\n"}, "expected HOST"),
        ({"name": "../x"}, "is not a name"),
        ({"password-file": "/nowhere"}, "--password-file /nowhere: No such file or directory"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_written(
    tmp_path: Path, secret: Path, options: dict[str, str], error: str
) -> None:
    done = init(tmp_path / "worker", secret, **options)
    assert isinstance(done.exception, MatrixError)
    assert error in str(done.exception)
    assert not (tmp_path / "worker").exists()


def test_a_password_that_others_read_and_a_worker_that_is_there(tmp_path: Path, secret: Path) -> None:
    secret.chmod(0o640)
    assert str(init(tmp_path / "worker", secret).exception).endswith(f"(mode 0640); run: chmod 600 {secret}")
    secret.chmod(0o600)
    secret.write_text("\n")
    assert str(init(tmp_path / "worker", secret).exception).endswith("it has no password")
    secret.write_text("x")
    assert init(tmp_path / "worker", secret).exit_code == 0
    assert "exists; nothing was written" in str(init(tmp_path / "worker", secret).exception)
