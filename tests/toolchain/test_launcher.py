"""``tools/environment.sh``: which Python runs the program, and where its environment is. The program is a stand-in."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mlir_matrix.base.paths import find_home
from support.workspace import wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
#: The interpreter's file is called so wherever it is.
NAME = f"python{sys.version_info[0]}.{sys.version_info[1]}"
PROGRAM = "import os, sys; print(os.path.realpath(sys.executable))\n"


#: Stands in for the one that installs pip, which takes seconds. Nothing is to be installed.
ENSUREPIP = "import sysconfig; open(sysconfig.get_path('purelib') + '/pip.py', 'w').close()\n"


#: One that is interrupted: it makes a temporary folder and says that it has begun.
INTERRUPTED = "import tempfile, time; tempfile.mkdtemp(); open({begun!r}, 'w').close(); time.sleep(600)\n"


def prefix(folder: Path, ensurepip: str = ENSUREPIP) -> Path:
    """Make another installation of this Python. Return its interpreter."""
    real, library = Path(sys.base_prefix) / "lib", folder / "lib" / NAME
    (library / "ensurepip").mkdir(parents=True)
    (library / "ensurepip" / "__main__.py").write_text(ensurepip)
    for path in [*(real / NAME).iterdir(), *real.glob("libpython*")]:
        if path.name != "ensurepip":
            (folder / path.relative_to(real.parent)).symlink_to(path)
    (folder / "bin").mkdir()
    return Path(shutil.copy(os.path.realpath(sys.executable), folder / "bin" / NAME))


class Checkout:
    """A checkout whose program says which interpreter runs it, and a PATH of its own."""

    def __init__(self, folder: Path) -> None:
        self.home, self.path, self.temporary = folder / "home", folder / "path", folder / "temporary"
        self._matrix = folder / "tools" / "matrix"
        self.path.mkdir()
        self.temporary.mkdir()
        (folder / "tools" / "mlir_matrix").mkdir(parents=True)
        (folder / "tools" / "mlir_matrix" / "__main__.py").write_text(PROGRAM)
        (folder / "tools" / "requirements.txt").write_text("")
        for name in ("matrix", "environment.sh"):
            shutil.copy(REPOSITORY / "tools" / name, folder / "tools" / name)
        for name in (
            "cat",
            "chmod",
            "cksum",
            "dirname",
            "flock",
            "grep",
            "mkdir",
            "mktemp",
            "mv",
            "readlink",
            "rm",
            "sh",
        ):
            found = shutil.which(name)
            assert found is not None
            (self.path / name).symlink_to(found)

    def __call__(self, **variables: str) -> tuple[str, str]:
        """Return the interpreter that ran the program, and what the launcher said."""
        environment = {"PATH": str(self.path), "MATRIX_HOME": str(self.home), **variables}
        done = subprocess.run([self._matrix], env=environment, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip(), done.stderr

    @contextmanager
    def begun(self, folder: Path) -> Iterator[subprocess.Popen[str]]:
        """Run the launcher in a process group of its own, with a Python that makes no environment, until it does so."""
        python, begun = self.path / "python3", folder / "begun"
        python.symlink_to(prefix(folder / "python", INTERRUPTED.format(begun=str(begun))))
        environment = {"PATH": str(self.path), "MATRIX_HOME": str(self.home), "TMPDIR": str(self.temporary)}
        # A shell cannot trap what was ignored when it began, as under nohup.
        heed = (
            "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
        )
        command = [sys.executable, "-c", heed, str(self._matrix)]
        with subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            try:
                assert wait_until(begun.exists)
                python.unlink()
                yield process
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def environments(self) -> list[str]:
        """The names of the environments, without their checksums."""
        names = [path.name for path in (self.home / "tool").iterdir()]
        return sorted(name.rpartition("-")[0] for name in names if name != ".lock")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_each_python_has_an_environment_of_its_own(checkout: Checkout, tmp_path: Path) -> None:
    """``python3`` is another file after an upgrade of the system. Where it chooses one of several, like pyenv's, it stays."""
    old, new = prefix(tmp_path / "old"), prefix(tmp_path / "new")
    python = checkout.path / "python3"
    python.symlink_to(old)
    version = ".".join(str(number) for number in sys.version_info[:3])
    says = f"making the program's own environment (Python {version}, about 15 s)\n"
    assert checkout() == (str(old), f"matrix: first use: {says}")
    assert checkout() == (str(old), "")
    python.unlink()
    python.write_text(f'#!/bin/sh\n[ ! -e {new} ] || exec {new} "$@"\nexec {old} "$@"\n')
    python.chmod(0o755)
    assert checkout() == (str(new), f"matrix: first use: {says}")
    assert checkout(MATRIX_PYTHON=str(old)) == (str(old), "")
    new.unlink()
    assert checkout() == (str(old), f"matrix: {new} is gone: {says}")
    assert checkout() == (str(old), "")
    assert checkout.environments() == ["requirements-python3", f"requirements-{NAME}"]


def test_first_uses_at_the_same_time_make_one_environment(checkout: Checkout, tmp_path: Path) -> None:
    (checkout.path / "python3").symlink_to(prefix(tmp_path / "python"))
    with ThreadPoolExecutor() as threads:
        done = [each.result() for each in [threads.submit(checkout) for _ in range(3)]]
    assert len({interpreter for interpreter, _ in done}) == 1
    assert "".join(said for _, said in done).count("first use") == 1
    assert len(checkout.environments()) == 1


@pytest.mark.parametrize("sent", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_first_use_leaves_nothing(sent: signal.Signals, checkout: Checkout, tmp_path: Path) -> None:
    with checkout.begun(tmp_path) as process:
        os.killpg(process.pid, sent)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + sent
    # Shells name the signal, too.
    assert said.count("matrix:") == 1
    assert checkout.environments() == []
    assert list(checkout.temporary.iterdir()) == []


def test_the_next_first_use_removes_what_a_killed_one_left(checkout: Checkout, tmp_path: Path) -> None:
    """The program that it had started goes on, and does not have the lock."""
    with checkout.begun(tmp_path) as process:
        process.kill()
        process.wait()
        assert checkout.environments() == [".making"]
        python = prefix(tmp_path / "other")
        (checkout.path / "python3").symlink_to(python)
        assert checkout()[0] == str(python)
        assert checkout.environments() == [f"requirements-{NAME}"]
    assert list(checkout.temporary.iterdir()) == []


def test_a_first_use_without_a_place_ends_with_a_sentence(checkout: Checkout, tmp_path: Path) -> None:
    (checkout.path / "python3").symlink_to(prefix(tmp_path / "python"))
    (checkout.home / "tool" / ".lock").mkdir(parents=True)
    with pytest.raises(subprocess.CalledProcessError) as failed:
        checkout()
    assert failed.value.returncode == 3
    assert ".lock" in failed.value.stderr


def test_tests_run_where_compiled_python_is_damaged(tmp_path: Path) -> None:
    """A full disk cut it short."""
    (tmp_path / "tool").symlink_to(find_home().cache / "tool")
    command = [REPOSITORY / "tools" / "test", "--quiet", "tests/fast/base/test_digest.py"]
    environment = {**os.environ, "MATRIX_HOME": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        made = list((tmp_path / "bytecode").rglob("*.pyc"))
        assert {"conftest", "digest", "test_digest"} <= {path.name.partition(".")[0] for path in made}
        for path in made:
            os.truncate(path, 100)
