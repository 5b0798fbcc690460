"""What a hostile source build tries against the machine, as root and as an ordinary user; what its programs try afterwards."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest

from mlir_matrix.actions.sandbox.isolation import NOTHING_HELD, PROCESSES
from mlir_matrix.environments.installed.prefix import read_prefix
from support.attacks import FOREVER, attacks_by
from support.downstream import processes
from support.machine import WHO, interpreter_of_all, needs

pytestmark = [
    pytest.mark.namespaces,
    needs("git"),
]
needs_compiler = needs("cc")
ATTACKS = attacks_by("build")
TOOLS = Path(__file__).parents[2] / "tools"
#: Where the packages are that ours needs.
LIBRARIES = Path(pydantic.__file__).parents[1]
#: Builds what the arguments say, and prints the name of its folder and its errors.
BUILD = """
import json, sys
from pathlib import Path
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.installer import Installer
from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.source.package import Compiler, SourceBuild
from mlir_matrix.environments.source.permissions import Permissions
given = json.loads(sys.argv[1])
home, permissions = Path(given.pop("home")), Permissions(**given.pop("permissions"))
build = SourceBuild(
    **{"component": "said", "release": "0.1", "subfolder": ".", "options": (), "targets": (), "programs": (), "variables": (),
       "needs": (), "compiler": Compiler(), "permissions": permissions, **given}
)
errors = []
installer = Installer(home / "packages", lambda event: errors.append(event.error), artifacts=Artifacts(home / "artifacts"))
installer.request([ResolvedEnvironment(name="x", interpreter=own(), packages=(), prefixes=(build,))])
installer.finish()
print(json.dumps([build.folder, [error for error in errors if error]]))
"""


class Operator:
    """Somebody's home, their processes and variables, and a repository that is not theirs, which they build."""

    def __init__(self, user: int | None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="operator-", dir="/var/tmp"))
        self.folder.chmod(0o755)
        self.user, self.matrix, self.victim = user, self.folder / "matrix", self.folder / "victim"
        self.clone, self.libraries = self.folder / "clone", self.folder / "libraries"
        self.python = sys.executable if user is None else interpreter_of_all()
        files = (
            "home/.ssh/id", "victim/kept", "matrix/packages/other-1/bin/say", "matrix/actions/entry", "checkout/.git/HEAD",
            "checkout/.git/config", "clone/attacks/none",
        )  # fmt: skip
        (self.folder / "libraries").mkdir()
        for name in files:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text("secret")
        self.server = socket.create_server(("127.0.0.1", 0))
        self.local = socket.socket(socket.AF_UNIX)
        self.local.bind(str(self.victim / "listener"))
        self._own()
        self.bystander = subprocess.Popen(
            [*self.who, "sleep", "600"], env={"KEY": "secret", "PATH": os.environ["PATH"]}
        )

    @property
    def who(self) -> list[str]:
        """The words that start a command as the user, who finds the packages of ours in a folder that they may read."""
        see = ("unshare", "--mount", "sh", "-c", f'mount --bind {LIBRARIES} {self.libraries} && exec "$@"', "sh")
        user = ("setpriv", "--reuid", str(self.user), "--regid", str(self.user), "--clear-groups")
        return [*see, *user] if self.user else []

    def _own(self) -> None:
        for place in (self.folder, *self.folder.rglob("*")):
            os.chown(place, self.user or -1, self.user or -1, follow_symlinks=False)

    def commit(self, **files: str) -> str:
        """Make a commit of these attacks."""
        for name, text in files.items():
            (self.clone / "attacks" / f"{name}.py").write_text(text)
        who = ("-c", "user.name=x", "-c", "user.email=x@example.com", "-c", f"safe.directory={self.clone}")
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "x", "--allow-empty"), ("rev-parse", "HEAD")):
            done = subprocess.run(
                ["git", *who, *words], cwd=self.clone, env=environment, stdout=subprocess.PIPE, check=True, text=True
            )
        self._own()
        return done.stdout.strip()

    def build(self, *, before: tuple[str, ...] = (), **given: Any) -> tuple[Path, list[str]]:
        """Build; return the package's folder and the errors."""
        given = {"home": str(self.matrix), "repository": str(self.clone), "permissions": {}, **given}
        done = subprocess.run(
            [*self.who, *before, self.python, "-P", "-s", "-c", BUILD, json.dumps(given)], cwd="/", check=False,
            env={
                "PYTHONPATH": f"{TOOLS}:{self.libraries if self.user else LIBRARIES}", "PYTHONDONTWRITEBYTECODE": "1",
                "PATH": os.environ["PATH"], "HOME": str(self.folder / "home"), "TOKEN": "secret",
            },
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        folder, errors = json.loads(done.stdout)
        return self.matrix / "packages" / folder, errors

    def close(self) -> None:
        self.bystander.kill()
        self.bystander.wait()
        self.server.close()
        self.local.close()
        shutil.rmtree(self.folder)


@pytest.fixture(scope="module", params=WHO)
def operator(request: pytest.FixtureRequest) -> Iterator[Operator]:
    found = Operator(request.param)
    yield found
    found.close()


#: Installs a program.
SAY = "mkdir $PREFIX/bin; printf '#!/bin/sh\\n' > $PREFIX/bin/say; chmod +x $PREFIX/bin/say"
#: Then runs each attack.
COMMAND = f"""
{SAY}; mkdir $PREFIX/found
for each in attacks/*.py; do PYTHON -I $each $PREFIX/found/$(basename $each .py) || exit; done
"""


class Attacked:
    """A prefix whose build has run all attacks."""

    def __init__(self, operator: Operator) -> None:
        self._words = {
            "@pid": operator.bystander.pid, "@victim": operator.victim, "@home": operator.folder / "home",
            "@matrix": operator.matrix, "@clone": operator.clone, "@checkout": operator.folder / "checkout",
            "@port": operator.server.getsockname()[1], "@folder": operator.folder / "checkout",
            "@most": max(PROCESSES, 64 * len(os.sched_getaffinity(0))),
        }  # fmt: skip
        end = "\njson.dump(found, open(sys.argv[1], 'w'), default=str)\n"
        programs = {name: self.filled(attack.program("build")) + end for name, attack in ATTACKS.items()}
        command = COMMAND.replace("PYTHON", operator.python)
        self.prefix, errors = operator.build(commit=operator.commit(**programs), command=command)
        assert errors == []

    def filled(self, text: str) -> str:
        """Replace the words that stand for what the operator has."""
        for word, value in self._words.items():
            text = text.replace(word, str(value))
        return text


@pytest.fixture(scope="module")
def attacked(operator: Operator) -> Attacked:
    return Attacked(operator)


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks(attacked: Attacked, name: str) -> None:
    expected = json.loads(attacked.filled(json.dumps(ATTACKS[name].answers("build"))))
    assert json.loads((attacked.prefix / "found" / name).read_text()) == expected


def test_nothing_is_left(operator: Operator, attacked: Attacked) -> None:
    """No process, no folder, no file of another user, and no program by which others become its owner."""
    assert processes(command=f"sleep {FOREVER}") == []
    assert operator.bystander.poll() is None
    assert sorted(path.name for path in operator.victim.iterdir()) == ["kept", "listener"]
    assert {path.read_text() for path in (operator.victim / "kept", operator.matrix / "packages/other-1/bin/say")} == {
        "secret"
    }
    packages = [path for path in (operator.matrix / "packages").iterdir() if path.name[0] != "."]
    assert sorted(packages) == sorted([attacked.prefix, operator.matrix / "packages/other-1"])
    assert {path.stat().st_uid for path in (operator.folder, *attacked.prefix.rglob("*"))} == {operator.user or 0}
    if operator.user is None and os.getuid() == 0:
        assert not (attacked.prefix / "bin/say").stat().st_mode & (stat.S_ISUID | stat.S_ISGID)


def test_a_folder_of_ours(operator: Operator) -> None:
    """A link there would have us write elsewhere, after the build."""
    command = f"mkdir $PREFIX/.matrix; ln -s {operator.victim}/kept $PREFIX/.matrix/prefix.json; {SAY}"
    _, errors = operator.build(commit=operator.commit(), command=command)
    assert errors == ["said 0.1 was built, but its files include .matrix, which holds our own files"]
    assert (operator.victim / "kept").read_text() == "secret"


def test_an_interpreter_that_is_a_key(operator: Operator) -> None:
    """An action gets what the programs need of the machine: no file of a home is that."""
    command = SAY.replace("/bin/sh", f"{operator.folder}/home/.ssh/id")
    folder, errors = operator.build(commit=operator.commit(), command=command)
    assert errors == []
    assert not [path for path in read_prefix(folder).needed if path.startswith(str(operator.folder))]
    folder, errors = operator.build(commit=operator.commit(), command=f"{SAY}; true")
    assert errors == []
    assert "/bin/sh" in read_prefix(folder).needed


AUDIT = """\
#include <fcntl.h>
unsigned la_version(unsigned version) {
  open("@victim/ran", O_CREAT | O_WRONLY, 0666);
  return version;
}
"""


@needs_compiler
def test_a_program_that_the_loader_runs_while_it_lists_it(operator: Operator) -> None:
    """By a library for audits; ``ld.so --list`` calls it, so that happens where the build was."""
    source = AUDIT.replace("@victim", str(operator.victim))
    command = (
        "mkdir $PREFIX/bin $PREFIX/lib; cc -shared -fPIC attacks/audit.py -x c -o $PREFIX/lib/liba.so; "
        "cc -x c attacks/main.py -o $PREFIX/bin/say -Wl,--audit=$PREFIX/lib/liba.so"
    ).replace("-fPIC attacks/audit.py -x c", "-fPIC -x c attacks/audit.py")
    folder, errors = operator.build(
        commit=operator.commit(audit=source, main="int main() { return 0; }"), command=command
    )
    assert errors == []
    assert (folder / "bin/say").is_file()
    assert not (operator.victim / "ran").exists()


def test_the_network_is_allowed_twice(operator: Operator) -> None:
    """By the component's file, and by the operator."""
    code = f"import socket; socket.create_connection(('127.0.0.1', {operator.server.getsockname()[1]}), 9)"
    command = f'{operator.python} -c "{code}" && {SAY}'
    commit, asks = operator.commit(), {"network": "toolchains/components/said.yaml:5:3"}
    _, errors = operator.build(commit=commit, command=command)
    assert "Network is unreachable" in errors[0]
    _, errors = operator.build(commit=commit, command=command, permissions={"network": True})
    assert "Network is unreachable" in errors[0]
    _, errors = operator.build(commit=commit, command=command, **asks)
    assert errors == [
        "toolchains/components/said.yaml:5:3: the build of said 0.1 needs the network; if you trust it, allow that with "
        "--allow-network-builds, for example: matrix toolchain fetch said@0.1 --allow-network-builds"
    ]
    folder, errors = operator.build(commit=commit, command=command, **asks, permissions={"network": True})
    assert errors == []
    assert operator.build(commit=commit, command=command, **asks) == (folder, []), "it is there already"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give the right to namespaces up")
def test_where_builds_cannot_be_confined(operator: Operator) -> None:
    """They are refused before they start, until the operator allows it."""
    if operator.user:
        pytest.skip("a user may make namespaces of users")
    bare = ("setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin")
    given = {"commit": operator.commit(), "command": f"{SAY}; : > {operator.victim}/free"}
    _, errors = operator.build(before=bare, **given)
    assert errors[0].startswith(
        f"said 0.1 cannot be built: error: builds cannot be confined here: {NOTHING_HELD}; allow that with"[:300]
    )
    assert not (operator.victim / "free").exists()
    folder, errors = operator.build(before=bare, **given, permissions={"unconfined": True})
    assert errors == []
    (operator.victim / "free").unlink()
    log = operator.matrix / "logs" / f"{folder.name}.log"
    assert f"not confined: {NOTHING_HELD}" in log.read_text()


def test_a_command_of_the_operators_own(operator: Operator) -> None:
    """It is run as they would run it."""
    given = {"commit": operator.commit(), "command": f"test -r $HOME/.ssh/id && {SAY}"}
    assert operator.build(**given)[1] != []
    assert operator.build(**given, permissions={"own": "said"})[1] == []
