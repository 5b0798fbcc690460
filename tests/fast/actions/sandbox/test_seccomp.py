"""System calls that an action may not make, tried in a process that gave them up."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from mlir_matrix.environments.interpreter import own

TOOLS = Path(__file__).parents[4] / "tools"
#: Numbers of io_uring_setup, keyctl, unshare, clone3 and, as x86-64 alone has it, socket in the second numbering.
CALLS = {"x86_64": (425, 250, 272, 435, 0x40000000 + 41), "aarch64": (425, 219, 97, 435)}
CODE = """
import ctypes, json, os, socket
from mlir_matrix.actions.sandbox import seccomp
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
found = {"restricted": seccomp.restrict()}
for family, kind in ((1, 1), (2, 1), (10, 1), (16, 3), (17, 2), (40, 1)):
    try: socket.socket(family, kind).close(); found[family] = "made"
    except OSError as error: found[family] = error.strerror
left, right = socket.socketpair()
left.send(b"x")
found["pair"] = right.recv(1).decode()
for kind in (socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC):
    try: socket.socketpair(socket.AF_UNIX, kind); found[f"pair {kind}"] = "made"
    except OSError as error: found[f"pair {kind}"] = error.strerror
import fcntl, tempfile
with tempfile.TemporaryFile() as file:
    found["flags"] = fcntl.fcntl(file, fcntl.F_GETFD)
    try: found["lease"] = fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error: found["lease"] = error.strerror
for number in CALLS:
    libc.syscall(number, 0, 0, 0, 0, 0)
    found[number] = os.strerror(ctypes.get_errno())
# A process in a user namespace of its own, by clone itself.
found["user"] = libc.syscall({"x86_64": 56}.get(os.uname().machine, 220), 0x10000000 | 17, 0, 0, 0, 0)
found["why"] = os.strerror(ctypes.get_errno())
import threading
thread = threading.Thread(target=found.setdefault, args=("thread", "ran"))
thread.start(), thread.join()
found["child"] = os.system("true")
print(json.dumps(found))
"""


@pytest.mark.skipif(os.uname().machine not in CALLS, reason="there is a filter for x86-64 and AArch64")
def test_what_is_refused() -> None:
    calls = CALLS[os.uname().machine]
    done = subprocess.run(
        [own().path, "-S", "-c", CODE.replace("CALLS", repr(calls))], env={"PYTHONPATH": str(TOOLS)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found["restricted"]
    refused = "Address family not supported by protocol"
    assert [found[family] for family in ("1", "17", "40")] == [refused] * 3
    assert [found[family] for family in ("2", "10", "16")] == ["made"] * 3
    assert [found[str(number)] for number in calls] == ["Function not implemented"] * len(calls)
    assert (found["user"], found["why"], found["thread"]) == (-1, "Function not implemented", "ran")
    assert (found["pair"], found["child"]) == ("x", 0)
    # A datagram socket of a pair could be bound again, and send files to an action beside it.
    assert {text for name, text in found.items() if name.startswith("pair ")} == {refused}
    assert (found["flags"], found["lease"]) == (1, "Function not implemented")
