"""What is taken away from a process, tried in processes of their own: by root and by nobody, and where it is forbidden."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mlir_matrix.actions.sandbox import isolation
from mlir_matrix.environments.interpreter import own
from support.machine import interpreter_of_all

TOOLS = Path(__file__).parents[4] / "tools"
AS_NOBODY = """
import ctypes, os
os.setgroups([]); os.setgid(65534); os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
"""
PREPARE = """
import ctypes, json, os, resource, signal, socket, sys, time
from mlir_matrix.actions.sandbox import isolation
found = {}
import codecs; codecs.lookup("ascii"), codecs.lookup("idna")
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that anybody may write to; pytest's own are for their owner alone."""
    place = Path(tempfile.mkdtemp(prefix="isolation-"))
    place.chmod(0o777)
    yield place
    shutil.rmtree(place)


def tried(code: str, folder: Path, *, nobody: bool = False) -> Any:
    """What the code puts into ``found``, run in ``folder``."""
    text = PREPARE + (AS_NOBODY if nobody else "") + textwrap.dedent(code) + "\nprint(json.dumps(found), flush=True)\n"
    python = interpreter_of_all() if nobody else own().path
    done = subprocess.run(
        [python, "-S", "-c", text], cwd=folder, env={"PYTHONPATH": str(TOOLS)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return json.loads(done.stdout or "null")


WHO = [
    pytest.param(False, id="self"),
    pytest.param(True, id="nobody", marks=pytest.mark.skipif(os.getuid() != 0, reason="only root can become nobody")),
]
#: With None an action sees all files, as under Bazel.
ANYTHING: list[str] = []
SEEN = [pytest.param(ANYTHING, id="built"), pytest.param(None, id="inherited")]
#: enter(), then a child in a space of its own that is confined and says through a pipe what it found.
CHILD = """
spaces = isolation.enter(DECLARED)
found["lost"] = spaces.lost
space = spaces.open(FOLDER, alone=True, devices=GRANTED)
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    try:
        os.setsid()
        isolation.limit_resources(memory_mb=512)
        space.confine()
        os.chdir(space.folder)
        isolation.drop_privileges()
        BODY
    except BaseException as error:
        found["error"] = repr(error)
    os.write(write, json.dumps(found).encode())
    os._exit(0)
os.close(write)
spaces.back()
_, status = os.waitpid(pid, 0)
space.kill(); space.close()
with open(read) as file: found.update(json.loads(file.read() or "{}"))
found["status"] = os.waitstatus_to_exitcode(status)
"""


def confined(
    body: str,
    folder: Path,
    *,
    nobody: bool = False,
    declared: list[str] | None = ANYTHING,
    devices: tuple[str, ...] = (),
) -> Any:
    body = textwrap.indent(textwrap.dedent(body).strip(), " " * 8).strip()
    text = CHILD.replace("FOLDER", repr(str(folder))).replace("BODY", body).replace("DECLARED", repr(declared))
    text = text.replace("GRANTED", repr(devices))
    found = tried(text, folder, nobody=nobody)
    assert found["lost"] == ""
    assert "error" not in found, found
    return found


@pytest.mark.namespaces
@pytest.mark.parametrize("declared", SEEN)
@pytest.mark.parametrize("nobody", WHO)
def test_only_its_folder_can_be_written(folder: Path, nobody: bool, declared: list[str] | None) -> None:
    outside, own_folder = folder / "outside", folder / "actions/1"
    own_folder.mkdir(parents=True)
    outside.mkdir()
    for each in (outside, own_folder):
        each.chmod(0o777)
    found = confined(
        f"""
        open("mine", "w").write("x")
        for path in ({str(outside / "x")!r}, "/proc/1/root{outside}/x", "/new", "/proc/self/oom_score_adj", "/dev/new"):
            try: open(path, "w").close(); found[path] = "written"
            except OSError as error: found[path] = error.strerror
        open("/dev/null", "w").write("x")
        # These are its own.
        open("/dev/shm/{folder.name}", "w").write("x")
        found["devices"] = sorted(os.listdir("/dev"))
        """,
        own_folder,
        nobody=nobody,
        declared=declared,
    )
    assert (own_folder / "mine").read_text() == "x"
    assert not list(outside.iterdir())
    assert not Path("/dev/shm", folder.name).exists()
    assert found[str(outside / "x")] == ("Read-only file system" if declared is None else "No such file or directory")
    assert found["/new"] == found["/dev/new"] == found["/proc/self/oom_score_adj"] == "Read-only file system"
    assert found[f"/proc/1/root{outside}/x"] == "Permission denied"
    links, devices = ["fd", "stderr", "stdin", "stdout"], ["full", "null", "random", "urandom", "zero"]
    assert found["devices"] == sorted([*links, *devices, "shm"])


@pytest.mark.namespaces
@pytest.mark.parametrize("declared", SEEN)
@pytest.mark.parametrize("nobody", WHO)
def test_what_lies_beside_its_folder_is_hidden(folder: Path, nobody: bool, declared: list[str] | None) -> None:
    for name in ("1", "2"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    (folder / "1" / "mine").write_text("x")
    found = confined(
        f"""
        found["beside"] = os.listdir(".."), os.listdir({str(folder)!r}) if os.path.exists({str(folder)!r}) else []
        open("more", "w").close()
        """,
        folder / "1",
        nobody=nobody,
        declared=declared,
    )
    assert found["beside"] == ([["1"], ["1"]] if declared is None else [["work"], []])
    assert sorted(os.listdir(folder)) == ["1", "2"]
    assert sorted(os.listdir(folder / "1")) == ["mine", "more"]


@pytest.mark.namespaces
@pytest.mark.parametrize("declared", SEEN)
@pytest.mark.parametrize("nobody", WHO)
def test_a_granted_device_is_there_beside_the_others(folder: Path, nobody: bool, declared: list[str] | None) -> None:
    found = confined(
        """
        for path in ("/dev/tty", "/dev/null", "/dev/shm/x", "/dev/new"):
            try: os.close(os.open(path, os.O_RDWR | (os.O_CREAT if path in ("/dev/shm/x", "/dev/new") else 0)))
            except OSError as error: found[path] = error.strerror
        found["pts"] = "ptmx" in os.listdir("/dev/pts")
        found["devices"] = sorted(os.listdir("/dev"))
        """,
        folder,
        nobody=nobody,
        declared=declared,
        # A device that everybody may open, and a folder of them.
        devices=("/dev/tty", "/dev/pts"),
    )
    # It has no terminal, so that there is none to open. Where a device is none at all that is «Permission denied».
    assert found.pop("/dev/tty") == "No such device or address"
    assert found.pop("/dev/new") == "Read-only file system"
    devices = ["fd", "full", "null", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"]
    assert found == {"lost": "", "status": 0, "pts": True, "devices": devices}


@pytest.mark.namespaces
def test_a_link_may_lead_through_a_link_in_a_declared_folder(folder: Path) -> None:
    """As that of a virtual environment to an interpreter in /tmp does."""
    (folder / "store/v1").mkdir(parents=True)
    (folder / "store/v1/it").write_text("x")
    (folder / "store/current").symlink_to("v1")
    (folder / "link").symlink_to(folder / "store/current")
    read = f"found['read'] = open({str(folder / 'link/it')!r}).read()"
    assert confined(read, folder, declared=[str(folder / "store"), str(folder / "link")])["read"] == "x"


@pytest.mark.namespaces
def test_what_is_declared_keeps_its_path(folder: Path) -> None:
    """Links on the way to it, too; and nothing beside it is there. The folder is in /tmp, which is the action's own."""
    (folder / "home/packages/x").mkdir(parents=True)
    (folder / "home/packages/x/it").write_text("x")
    (folder / "home/secret").write_text("x")
    (folder / "link").symlink_to("home/packages")
    new = f"/tmp/{folder.name}-new"
    found = confined(
        f"""
        found["read"] = open({str(folder / "link/x/it")!r}).read()
        found["seen"] = [sorted(os.listdir({str(folder)!r} + path)) for path in ("", "/home", "/link/")]
        for path in ({new!r}, {str(folder / "link/x/it")!r}):
            try: open(path, "w").close(); found[path] = "written"
            except OSError as error: found[path] = error.strerror
        """,
        folder,
        declared=[str(folder / "link/x")],
    )
    assert found["read"] == "x"
    assert found["seen"] == [["home", "link"], ["packages"], ["x"]]
    assert (found[new], found[str(folder / "link/x/it")]) == ("written", "Read-only file system")
    assert not Path(new).exists()


@pytest.mark.namespaces
@pytest.mark.parametrize("nobody", WHO)
def test_isolation_cannot_be_undone(folder: Path, nobody: bool) -> None:
    """Privileges go last: no remounting, no way back into the namespaces outside."""
    found = confined(
        """
        libc = ctypes.CDLL(None, use_errno=True)
        found["remount"] = libc.mount(None, b"/", None, 32 | 4096, None)
        found["umount"] = libc.umount2(b"/proc", 2)
        found["unshare"] = libc.unshare(0x20000)
        found["capabilities"] = [line.split()[1] for line in open("/proc/self/status") if line.startswith(("CapEff", "CapBnd"))]
        found["new"] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("NoNewPrivs")]
        """,
        folder,
        nobody=nobody,
    )
    assert (found["remount"], found["umount"], found["unshare"]) == (-1, -1, -1)
    assert {int(value, 16) for value in found["capabilities"]} <= {0, 2}
    assert found["new"] == ["1"]


@pytest.mark.namespaces
@pytest.mark.parametrize("nobody", WHO)
def test_isolated_action_sees_no_other_process(folder: Path, nobody: bool) -> None:
    """No network, no process but its own, none that it could signal."""
    found = confined(
        """
        found["ids"] = [os.getpid(), os.getppid()]
        found["seen"] = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
        for pid in (-1, 1):
            try: os.kill(pid, 9); found[str(pid)] = "sent"
            except OSError as error: found[str(pid)] = error.strerror
        for address in ("127.0.0.1", "192.0.2.1"):
            try: socket.create_connection((address, 9), 3)
            except OSError as error: found[address] = error.strerror
        found["interfaces"] = [name for _, name in socket.if_nameindex()]
        """,
        folder,
        nobody=nobody,
    )
    assert found["ids"] == [2, 0]
    assert set(found["seen"]) <= {1, 2}
    assert found["127.0.0.1"] == found["192.0.2.1"] == "Network is unreachable"
    assert found["interfaces"] == ["lo"]
    assert found["status"] == 0


@pytest.mark.namespaces
@pytest.mark.parametrize("nobody", WHO)
def test_a_space_ends_with_all_in_it(folder: Path, nobody: bool) -> None:
    """Sessions, ignored signals and stopped processes do not help."""
    found = tried(
        f"""
        spaces = isolation.enter([])
        found["entered"] = spaces is not None
        if spaces:
            space = spaces.open({str(folder)!r}, alone=True)
            pid = os.fork()
            if pid == 0:
                for number in range(20):
                    if os.fork() == 0:
                        os.setsid()
                        signal.signal(signal.SIGTERM, signal.SIG_IGN)
                        if number % 2 and os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP)
                        while True: open(space.folder + "/alive", "w").close(); time.sleep(0.02)
                while not os.path.exists(space.folder + "/alive"): time.sleep(0.02)
                time.sleep(0.3)
                os._exit(0)
            spaces.back()
            os.waitpid(pid, 0)
            space.kill(); space.close()
            os.unlink({str(folder / "alive")!r})
            time.sleep(0.3)
            found["alive"] = os.path.exists({str(folder / "alive")!r})
            # And there can be a next one.
            again = spaces.open({str(folder)!r}, alone=True)
            pid = os.fork()
            if pid == 0: os._exit(os.getpid())
            spaces.back()
            found["next"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            again.kill(); again.close()
        """,
        folder,
        nobody=nobody,
    )
    assert found["entered"]
    assert (found["alive"], found["next"]) == (False, 2)


@pytest.mark.namespaces
@pytest.mark.parametrize(
    ("code", "expected"), [("os._exit(7)", 7), ("os.kill(os.getpid(), 9)", 128 + 9), ("os.abort()", 128 + 11)]
)
def test_the_process_that_stands_by_ends_alike(code: str, expected: int, folder: Path) -> None:
    """The first process of a namespace cannot be killed by itself, and its abort is a fault; from outside it is as usual."""
    text = PREPARE + f"spaces = isolation.enter()\n{code}\nos._exit(55)"
    done = subprocess.run([own().path, "-S", "-c", text], env={"PYTHONPATH": str(TOOLS)}, timeout=60, check=False)
    assert done.returncode in ((55,) if "kill" in code else (expected,))


def test_where_namespaces_are_forbidden(folder: Path) -> None:
    """None, without a word, and the caller is still itself."""
    if os.getuid() != 0:
        pytest.skip("only root can give the right to namespaces up")
    found = tried(
        """
        before = os.getpid()
        isolation.drop_privileges()
        found["spaces"] = repr(isolation.enter())
        found["same"] = os.getpid() == before
        found["lost"] = isolation.lost(None) == isolation.NOTHING_HELD
        open("x", "w").close()
        """,
        folder,
    )
    assert found == {"spaces": "None", "same": True, "lost": True}


def test_limits_hold_for_good(folder: Path) -> None:
    found = tried(
        """
        isolation.limit_resources(memory_mb=300)
        isolation.drop_privileges()
        for name in ("DATA", "AS", "FSIZE", "CORE", "NOFILE"):
            kind = getattr(resource, "RLIMIT_" + name)
            soft, hard = resource.getrlimit(kind)
            found[name] = [soft, hard]
            try: resource.setrlimit(kind, (hard, hard + 4096)); found[name].append("lifted")
            except (OSError, ValueError): pass
        try: bytearray(1 << 30)
        except MemoryError: found["memory"] = "refused"
        found["score"] = open("/proc/self/oom_score_adj").read().strip()
        """,
        folder,
    )
    # What the process had before does not count.
    assert (300 << 20) < found["DATA"][0] < (400 << 20)
    assert found["DATA"][0] == found["DATA"][1]
    assert (600 << 20) < found["AS"][0] < (8 << 30)
    assert found["AS"][0] == found["AS"][1]
    assert found["FSIZE"] == [4 << 30, 4 << 30]
    assert found["CORE"] == [0, 0]
    assert found["NOFILE"][0] == found["NOFILE"][1] <= isolation.OPEN_FILES
    assert (found["memory"], found["score"]) == ("refused", "1000")


def test_memory_kills_are_counted() -> None:
    from mlir_matrix.actions.sandbox.isolation import memory_kills

    text = Path("/proc/vmstat").read_text()
    if "oom_kill " not in text:
        pytest.skip("this kernel does not count them")
    assert memory_kills() >= 0
    assert memory_kills() == int(next(line.split()[1] for line in text.splitlines() if line.startswith("oom_kill ")))


@pytest.mark.parametrize(
    ("pid", "flags", "interfaces", "expected"),
    [
        (1, os.ST_RDONLY, ["lo"], True),
        (1, os.ST_RDONLY, [], True),
        (1, os.ST_RDONLY, ["lo", "nobody-knows"], False),
        (1, 0, ["lo"], False),
        (7, os.ST_RDONLY, ["lo"], False),
    ],
)
def test_what_a_container_has_done_already(
    pid: int, flags: int, interfaces: list[str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: pid)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=flags))
    monkeypatch.setattr("socket.if_nameindex", lambda: list(enumerate(interfaces)))
    assert isolation.contained() == expected


@pytest.mark.namespaces
@pytest.mark.parametrize("nobody", WHO)
def test_inputs_are_read_only(folder: Path, nobody: bool) -> None:
    (folder / "in").mkdir(mode=0o777)
    (folder / "in" / "x").write_text("x")
    found = confined(
        """
        for path, mode in (("in/x", "a"), ("in/new", "w"), ("beside", "w")):
            try: open(path, mode).write("y"); found[path] = "written"
            except OSError as error: found[path] = error.strerror
        """,
        folder,
        nobody=nobody,
    )
    assert found["in/new"] == "Read-only file system"
    assert found["in/x"] in ("Read-only file system", "Permission denied")
    assert found["beside"] == "written"


@pytest.mark.namespaces
def test_an_action_is_never_root_for_want_of_users(folder: Path) -> None:
    found = tried(
        f"""
        spaces = isolation.enter([])
        spaces._users = set()
        try: spaces.open({str(folder)!r}, alone=True)
        except OSError as error: found["why"] = error.strerror
        # The worker is back where it was.
        found["own"] = os.path.isdir({str(folder)!r})
        found["root"] = spaces._first_user != 0
        """,
        folder,
    )
    assert found["own"]
    assert found.get("why") == ("all users of this worker are in use" if found["root"] else None)
