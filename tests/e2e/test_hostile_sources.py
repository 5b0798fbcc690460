"""Programs that do what no program should: each gets an outcome of its own, and the others beside it theirs.

One run has all of them at once, with innocent ones in between, so that what one does to another shows.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from downstream import Downstream, processes, tree
from house import House, Report, copy_runtime, new_home

LEFT = "mx-left-over"
TIMEOUT_S = 12.0

#: Source of jax.py; outcome; what the reason says. GOOD is appended to those that should go on to compute what is right.
GOOD = "\ndef workload(x):\n    return x * 2\n"
NAME = f"""
import ctypes
ctypes.CDLL(None).prctl(15, b"{LEFT}", 0, 0, 0)
"""
JAX: dict[str, tuple[str, str, str]] = {
    # What it raises or returns
    "raises": ("def workload(x):\n    raise ValueError('boom')", "import-failed", "ValueError: boom"),
    "raises_at_import": ("raise ValueError('boom')", "import-failed", "ValueError: boom"),
    "exits": ("import sys\nsys.exit(0)", "import-failed", "SystemExit"),
    "exits_inside": ("def workload(x):\n    raise SystemExit('pass')", "import-failed", "SystemExit"),
    "interrupts": ("raise KeyboardInterrupt", "import-failed", "KeyboardInterrupt"),
    "base_exception": (
        "class Odd(BaseException):\n    def __str__(self): raise ValueError\nraise Odd", "import-failed", "Odd",
    ),
    "no_text": ("raise ValueError('x \\ud800\\x00 y')", "import-failed", "ValueError: x .* y"),
    "escape_codes": ("raise ValueError('\\x1b[2J\\x1b]0;owned\\x07 [bold red]<b>&')", "import-failed", "<b>&"),
    "long_message": ("raise ValueError('x' * 50_000_000)", "import-failed", "xxx"),
    "syntax": ("def workload(x:\n", "import-failed", "SyntaxError"),
    "null_bytes": ("x = 1\0", "import-failed", "null bytes"),
    "nothing": ("", "import-failed", "does not define the function workload"),
    "no_function": ("workload = 3", "import-failed", "does not define the function workload"),
    "shape": ("def workload(x):\n    return x[:3]", "import-failed", r"declared f32\[4\], got f32\[3\]"),
    "dtype": ("def workload(x):\n    return (x * 2).astype('int32')", "import-failed", "declared f32.*got i32"),
    "count": ("def workload(x):\n    return x, x", "import-failed", "declared 1 output, got 2 outputs"),
    "none": ("def workload(x):\n    return None", "import-failed", "declared 1 output, got 0 outputs"),
    "text": ("def workload(x):\n    return 'right'", "import-failed", "TypeError"),
    "recursion": ("def f(): return f()\nf()", "import-failed", "RecursionError"),
    # Never ends
    "endless": ("while True: pass", "timed-out", "no answer within"),
    "sleeps_in_c": (
        "import ctypes, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
        "ctypes.CDLL(None).sleep(100000)", "timed-out", "no answer within",
    ),
    "stops_itself": ("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", "timed-out", "no answer within"),
    # Ends its process
    "kills_itself": ("import os\nos.kill(os.getpid(), 9)", "crashed", "SIGKILL"),
    "segfault": ("import ctypes\nctypes.string_at(0)", "crashed", "SIGSEGV"),
    "aborts": ("import os\nos.abort()", "crashed", "SIGABRT"),
    "stack": (
        "import sys\nsys.setrecursionlimit(10 ** 9)\nclass A:\n    def __repr__(self): return repr([self])\nrepr(A())",
        # Newer interpreters count calls in C apart.
        "crashed|import-failed", "SIGSEGV|RecursionError",
    ),
    "leaves_quietly": ("import os\nos._exit(0)", "import-failed", "ended by itself with exit code 0"),
    "kills_its_parent": ("import os\nos.kill(os.getppid(), 9)" + GOOD, "crashed", "SIGKILL"),
    "kills_everyone": (
        "import os\nassert os.getppid() == 0, 'not isolated'\nfor pid, signal in ((-1, 9), (1, 9), (1, 19)):\n"
        "    try: os.kill(pid, signal)\n    except OSError: pass" + GOOD, "pass", "",
    ),
    # Takes what there is
    "memory": ("hog = []\nwhile True: hog.append(bytearray(64 << 20))", "import-failed", "out of memory"),
    "memory_numpy": (
        "import numpy\ndef workload(x):\n    hog = []\n    while True: hog.append(numpy.ones(1 << 23))",
        "import-failed", "memory",
    ),
    "memory_shared": (
        "import mmap\nhog = []\nwhile True: hog.append(mmap.mmap(-1, 1 << 28))", "import-failed", "memory",
    ),
    "prints": (
        "import os\nblock = b'x' * (1 << 20)\nfor _ in range(1024): os.write(1, block)" + GOOD, "pass", "",
    ),
    "descriptors": (
        "import os\ntry:\n    while True: os.open('/dev/null', os.O_RDONLY)\nexcept OSError: pass" + GOOD,
        "import-failed", "Too many open files",
    ),
    "deep_folders": (
        "import os\nhome = os.getcwd()\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nos.chdir(home)" + GOOD,
        "pass", "",
    ),
    # Leaves something running
    "forks": (
        NAME + "import os, time\nfor _ in range(60):\n    if os.fork() == 0:\n        os.setsid()\n"
        "        if os.fork() == 0: time.sleep(600)\n        os._exit(0)" + GOOD, "pass", "",
    ),
    "bomb": (
        NAME + "import os, time\nfor _ in range(7): os.fork()\nwhile True: time.sleep(1)", "timed-out", "no answer within",
    ),
    "daemon": (
        NAME + "import os, signal, time\nif os.fork() == 0:\n    os.setsid()\n    for n in (1, 2, 3, 15): "
        "signal.signal(n, signal.SIG_IGN)\n    while True: time.sleep(1)\nos._exit(3)", "import-failed", "exit code 3",
    ),
    "threads": (
        "import threading, time\ndef spin():\n    while True: time.sleep(0.01)\n"
        "for _ in range(8): threading.Thread(target=spin).start()" + GOOD, "pass", "",
    ),
    "handlers": (
        "import signal\nfor n in signal.valid_signals() - {9, 19}:\n    try: signal.signal(n, lambda *_: None)\n"
        "    except (OSError, ValueError): pass\nsignal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)" + GOOD, "pass", "",
    ),
    # Reaches out
    "reads_stdin": ("import os\nassert os.read(0, 1) == b''" + GOOD, "pass", ""),
    "asks": ("input()", "import-failed", "EOFError"),
    "closes_everything": ("import os\nos.closerange(0, 4096)" + GOOD, "pass", ""),
    "socket": (
        "import socket\nsocket.create_connection(('127.0.0.1', PORT), 5)" + GOOD, "import-failed", "unreachable|refused",
    ),
    "writes_elsewhere": ("open('VICTIM/new', 'w').write('x')" + GOOD, "import-failed", "Read-only file system"),
    "writes_our_code": (
        "import os\nfrom mlir_matrix.actions import ingress\nos.open(ingress.__file__, os.O_WRONLY)" + GOOD,
        "import-failed", "Read-only file system",
    ),
    "writes_bytecode": (
        "import os, sys\nos.open(sys.pycache_prefix + '/x.pyc', os.O_CREAT | os.O_WRONLY)" + GOOD,
        "import-failed", "Read-only file system",
    ),
    "remounts": (
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.mount(None, b'/', None, 32 | 4096, None):\n    raise OSError(ctypes.get_errno(), 'stays')" + GOOD,
        "import-failed", "stays",
    ),
    "sees_nobody": (
        "import os\nfound = [n for n in os.listdir('/proc') if n.isdigit()]\nassert len(found) <= 2, found" + GOOD, "pass", "",
    ),
    "removes_its_folder": (
        "import os, shutil\nshutil.rmtree(os.getcwd(), ignore_errors=True)" + GOOD, "import-failed", "No such file",
    ),
    "leaves_its_folder": ("import os\nos.chdir('/')" + GOOD, "import-failed", "No such file|Read-only"),
    # Says what is not so
    "protocol": (
        "import os\nfor fd in range(1, 64):\n    for number in range(200):\n        try: os.write(fd, "
        "b'{\"requestId\": %d, \"exitCode\": 0}\\n' % number)\n        except OSError: break" + GOOD, "pass", "",
    ),
    "protocol_of_others": (
        "import glob, os\nfor path in glob.glob('/proc/[0-9]*/fd/*'):\n    if str(os.getpid()) in path: continue\n"
        "    try: os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK), b'{\"requestId\": 1}\\n')\n"
        "    except OSError: pass" + GOOD, "pass", "",
    ),
    "claims_pass": (
        "import os\nopen('outcome.json', 'w').write('{\"outcome\": \"pass\", \"stage\": \"judge\", \"reason\": \"\"}')\n"
        "os._exit(0)", "import-failed", "claims an outcome",
    ),
    "claims_skipped": (
        "import os\nopen('outcome.json', 'w').write('{\"outcome\": \"skipped\", \"stage\": \"import\"}')\nos._exit(0)",
        "import-failed", "claims an outcome",
    ),
    "claims_ok": (
        "import os\nopen('outcome.json', 'w').write('{\"outcome\": \"ok\", \"stage\": \"import\"}')\nos._exit(0)",
        "import-failed", "missing or no plain file",
    ),
    "outcome_garbage": ("import os\nopen('outcome.json', 'w').write('[' * 100000)\nos._exit(0)", "import-failed", "outcome"),
    "outcome_pipe": ("import os\nos.mkfifo('outcome.json')\nos._exit(0)", "import-failed", "outcome"),
    "outcome_folder": ("import os\nos.mkdir('outcome.json')\nos.mkdir('outcome.json.tmp')" + GOOD, "pass", ""),
    "log_pipe": ("import os\nos.unlink('log.txt')\nos.mkfifo('log.txt')\nos._exit(4)", "import-failed", "exit code 4"),
    "output_link": (
        "import os\nos.symlink('VICTIM/kept', 'out/STABLEHLO')\n"
        "open('outcome.json', 'w').write('{\"outcome\": \"ok\", \"stage\": \"import\"}')\nos._exit(0)",
        "import-failed", "missing or no plain file",
    ),
    "output_folder_link": (
        "import os\nos.rmdir('out')\nos.symlink('VICTIM', 'out')\n"
        "open('outcome.json', 'w').write('{\"outcome\": \"ok\", \"stage\": \"import\"}')\nos._exit(0)",
        "import-failed", "out is gone",
    ),
    "output_device": (
        "import os\nos.mkfifo('out/STABLEHLO')\nopen('outcome.json', 'w').write("
        "'{\"outcome\": \"ok\", \"stage\": \"import\"}')\nos._exit(0)", "import-failed", "missing or no plain file",
    ),
}  # fmt: skip
TORCH: dict[str, tuple[str, str, str]] = {
    "t_raises": ("def workload(x):\n    raise RuntimeError('boom')", "import-failed", "boom"),
    "t_exits": ("def workload(x):\n    raise SystemExit(0)", "import-failed", "SystemExit"),
    "t_shape": ("def workload(x):\n    return x[:3] * 2", "import-failed", r"declared f32\[4\], got f32\[3\]"),
    "t_memory": (
        "import torch\nhog = []\nwhile True: hog.append(torch.ones(1 << 24))", "import-failed", "memory",
    ),
    "t_segfault": ("import ctypes\nctypes.string_at(0)", "crashed", "SIGSEGV"),
    "t_kills_its_parent": ("import os\nos.kill(os.getppid(), 9)", "crashed", "SIGKILL"),
    "t_endless": ("def workload(x):\n    while True: x = x", "timed-out", "no answer within"),
    "t_writes_input": ("def workload(x):\n    return x.add_(x)", "import-failed", "writes to its inputs"),
}  # fmt: skip
MLIR: dict[str, tuple[str, str, str]] = {
    "m_endless": (
        """
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = scf.while (%v = %x) : (tensor<4xf32>) -> tensor<4xf32> {
            %zero = arith.constant 0 : index
            %e = tensor.extract %v[%zero] : tensor<4xf32>
            %one = arith.constant 1.0 : f32
            %more = arith.cmpf olt, %e, %one : f32
            scf.condition(%more) %v : tensor<4xf32>
          } do {
          ^bb0(%v: tensor<4xf32>):
            %zero = arith.constant 0 : index
            %three = arith.constant 3 : index
            %a = tensor.extract %v[%zero] : tensor<4xf32>
            %b = tensor.extract %v[%three] : tensor<4xf32>
            %less = arith.constant -0.5 : f32
            %c = arith.mulf %a, %less : f32
            %d = arith.subf %c, %b : f32
            %w = tensor.insert %d into %v[%zero] : tensor<4xf32>
            scf.yield %w : tensor<4xf32>
          }
          return %y : tensor<4xf32>
        }
        """, "timed-out", "no answer within",
    ),
    "m_divides": (
        """
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %zero = arith.constant 0 : index
          %e = tensor.extract %x[%zero] : tensor<4xf32>
          %i = arith.fptosi %e : f32 to i32
          %seven = arith.constant 7 : i32
          %q = arith.divsi %seven, %i : i32
          %f = arith.sitofp %q : i32 to f32
          %y = tensor.insert %f into %x[%zero] : tensor<4xf32>
          return %y : tensor<4xf32>
        }
        """, "crashed", "SIGFPE",
    ),
    "m_out_of_bounds": (
        """
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %three = arith.constant 3 : index
          %zero = arith.constant 0 : index
          %e = tensor.extract %x[%three] : tensor<4xf32>
          %far = arith.constant 1.0e15 : f32
          %there = arith.mulf %e, %far : f32
          %wide = arith.fptosi %there : f32 to i64
          %at = arith.index_cast %wide : i64 to index
          %f = tensor.extract %x[%at] : tensor<4xf32>
          %y = tensor.insert %f into %x[%zero] : tensor<4xf32>
          return %y : tensor<4xf32>
        }
        """, "crashed", "SIGSEGV",
    ),
    "m_stack": (
        """
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %three = arith.constant 3 : index
          %e = tensor.extract %x[%three] : tensor<4xf32>
          %i = arith.fptosi %e : f32 to i64
          %mega = arith.constant 100000000 : i64
          %many = arith.muli %i, %mega : i64
          %size = arith.index_cast %many : i64 to index
          %place = memref.alloca(%size) : memref<?xf32>
          %zero = arith.constant 0 : index
          %step = arith.constant 1000 : index
          scf.for %n = %zero to %size step %step {
            memref.store %e, %place[%n] : memref<?xf32>
          }
          %at = arith.index_cast %i : i64 to index
          %f = memref.load %place[%at] : memref<?xf32>
          %y = tensor.insert %f into %x[%zero] : tensor<4xf32>
          return %y : tensor<4xf32>
        }
        """, "crashed", "SIGSEGV",
    ),
    "m_asserts": (
        """
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %zero = arith.constant 0 : index
          %e = tensor.extract %x[%zero] : tensor<4xf32>
          %one = arith.constant 1.0 : f32
          %no = arith.cmpf ogt, %e, %one : f32
          cf.assert %no, "it is not"
          return %x : tensor<4xf32>
        }
        """, "crashed|run-failed", "SIGABRT|abort|it is not",
    ),
    "m_memory": (
        """
        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %three = arith.constant 3 : index
          %e = tensor.extract %x[%three] : tensor<4xf32>
          %i = arith.fptosi %e : f32 to i64
          %giga = arith.constant 1000000000000 : i64
          %many = arith.muli %i, %giga : i64
          %size = arith.index_cast %many : i64 to index
          %big = tensor.empty(%size) : tensor<?xf32>
          %all = linalg.generic {indexing_maps = [affine_map<(n) -> (n)>], iterator_types = ["parallel"]}
              outs(%big : tensor<?xf32>) {
          ^bb0(%out: f32):
            %n = linalg.index 0 : index
            %m = arith.index_cast %n : index to i64
            %value = arith.sitofp %m : i64 to f32
            linalg.yield %value : f32
          } -> tensor<?xf32>
          %at = arith.index_cast %i : i64 to index
          %f = tensor.extract %all[%at] : tensor<?xf32>
          %zero = arith.constant 0 : index
          %y = tensor.insert %f into %x[%zero] : tensor<4xf32>
          return %y : tensor<4xf32>
        }
        """, "run-failed|crashed", "memory|SIG",
    ),
    "m_shape": (
        "func.func @main(%x: tensor<4xf32>) -> tensor<5xf32> {\n  %y = tensor.empty() : tensor<5xf32>\n"
        "  return %y : tensor<5xf32>\n}\n", "import-failed", "output y must be tensor<4xf32>, it is tensor<5xf32>",
    ),
    "m_no_main": ("func.func @other() {\n  return\n}\n", "import-failed", "no func.func @main"),
    "m_broken": ("func.func @main(%x: tensor<4xf32>) -> {", "import-failed", "does not parse"),
    "m_binary": ("ML\u00efR\0\0\0", "import-failed", "parse|neither"),
    "m_wrong": (
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n",
        "mismatch", "3 of 4 elements",
    ),
}  # fmt: skip
INNOCENT_MLIR = """
#id = affine_map<(i) -> (i)>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %init = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%init : tensor<4xf32>) {
  ^bb0(%e: f32, %out: f32):
    %sum = arith.addf %e, %e : f32
    linalg.yield %sum : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
CASES = {
    f"{framework}/linalg-loops/x86_64/{name}": case
    for framework, cases in (("jax", JAX), ("pytorch", TORCH), ("mlir", MLIR))
    for name, case in cases.items()
}
INNOCENT = [f"{framework}/linalg-loops/x86_64/good_{n}" for framework in ("jax", "pytorch", "mlir") for n in range(4)]


@dataclass(frozen=True)
class Aftermath:
    """The run with everything in it, and the traces that it left."""

    report: Report
    seconds: float
    house: House
    connections: int
    victim_before: dict[str, Any]
    victim_after: dict[str, Any]
    left: list[str]


@pytest.fixture(scope="module")
def listener() -> Iterator[tuple[int, list[int]]]:
    """A port of this machine that counts who comes."""
    server = socket.create_server(("127.0.0.1", 0))
    came = [0]

    def serve() -> None:
        while True:
            try:
                server.accept()[0].close()
            except OSError:
                return
            came[0] += 1

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1], came
    server.shutdown(socket.SHUT_RDWR)
    server.close()


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory, runtime: Path, listener: tuple[int, list[int]]) -> Aftermath:
    folder = tmp_path_factory.mktemp("hostile")
    house = House(new_home(folder / "home"), more={"COLUMNS": "120"})
    copy_runtime(runtime, house.actions)
    victim = folder / "victim"
    victim.mkdir()
    (victim / "kept").write_text("kept")
    (victim / "linalg.mlir").write_text("kept")
    (victim / "stablehlo.mlir").write_text("kept")
    port, came = listener
    catalog = Downstream(folder / "catalog")
    for framework, cases in (("jax", JAX), ("pytorch", TORCH), ("linalg", MLIR)):
        for name, (source, _, _) in cases.items():
            text = source.replace("VICTIM", str(victim)).replace("PORT", str(port))
            catalog.workload(name, **{framework: text.replace("STABLEHLO", "stablehlo.mlir")})
    for number in range(4):
        catalog.workload(f"good_{number}", jax=GOOD, pytorch=GOOD, linalg=INNOCENT_MLIR)
    before, started = tree(victim), time.monotonic()
    done = house(
        "run", *CASES, *INNOCENT, "--catalog", catalog.root, "--format", "json", "--quiet",
        "--timeout", str(TIMEOUT_S), "--memory", "1536", "--jobs", "4",
    )  # fmt: skip
    seconds = time.monotonic() - started
    left = processes(name=LEFT, command=str(house.home))
    return Aftermath(Report(done), seconds, house, came[0], before, tree(victim), left)


def test_the_run_ends(aftermath: Aftermath) -> None:
    """In bounded time, with the code that says: something under test is not as expected."""
    endless = sum(outcome == "timed-out" for _, outcome, _ in CASES.values())
    assert aftermath.report.finished.code == 1, aftermath.report.finished.stderr
    assert len(aftermath.report.tests) == len(CASES) + len(INNOCENT)
    assert aftermath.seconds < 120 + 3 * endless * TIMEOUT_S


@pytest.mark.parametrize("test", INNOCENT)
def test_innocent_ones_pass(aftermath: Aftermath, test: str) -> None:
    result = aftermath.report.tests[test]
    assert result["outcome"] == "pass", result


@pytest.mark.parametrize("test", CASES)
def test_each_gets_its_own_outcome(aftermath: Aftermath, test: str) -> None:
    _, outcome, reason = CASES[test]
    result = aftermath.report.tests[test]
    said = f"{result['outcome']} at {result['stage']}: {result['reason']}\n{result.get('diagnostics', '')[-3000:]}"
    assert re.fullmatch(outcome, result["outcome"]), said
    assert re.search(reason, result["reason"]), said
    stage = "run" if test.startswith("mlir") and result["outcome"] in ("crashed", "timed-out") else None
    if result["outcome"] in ("crashed", "timed-out"):
        assert result["stage"] == (stage or "import")


def test_nothing_is_left_running(aftermath: Aftermath) -> None:
    assert aftermath.left == []


def test_nothing_is_left_lying(aftermath: Aftermath) -> None:
    assert os.listdir(aftermath.house.actions / "scratch") == []


def test_nothing_else_is_touched(aftermath: Aftermath) -> None:
    assert aftermath.victim_after == aftermath.victim_before
    assert aftermath.connections == 0


def test_words_do_not_reach_the_terminal_raw(aftermath: Aftermath) -> None:
    for test in aftermath.report.tests.values():
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", test["reason"] + test.get("diagnostics", "")), test["id"]


def test_verdicts_about_code_are_kept_and_others_are_not(aftermath: Aftermath) -> None:
    """A failure is a value; a time-out, or a SIGKILL from who knows where, is not."""
    kept = [entry["outcome"] for entry in aftermath.house.kept().values()]
    assert {entry["outcome"] for entry in kept} <= {"ok", "import-failed", "crashed", "run-failed"}
    assert not [entry for entry in kept if entry.get("signal") == "SIGKILL"]
    assert len([entry for entry in kept if entry.get("signal") == "SIGSEGV"]) >= 4


REFERENCES = {
    "raises": ("def reference(x):\n    raise ValueError('boom')", "ValueError: boom"),
    "exits": ("raise SystemExit(0)", "SystemExit"),
    "kills_itself": ("import os\nos.kill(os.getpid(), 9)", "SIGKILL"),
    "kills_its_parent": ("import os\nos.kill(os.getppid(), 9)", "SIGKILL"),
    "leaves": ("import os\nos._exit(0)", "ended by itself"),
    "shape": ("def reference(x):\n    return x[:3]", "shape"),
    "dtype": ("def reference(x):\n    return x.astype('float32')", "float64"),
    "none": ("def reference(x):\n    return None", "NoneType"),
    "nan": ("def reference(x):\n    return x * float('nan')", "NaN"),
    "memory": ("hog = []\nwhile True: hog.append(bytearray(64 << 20))", "memory"),
    "writes": ("open('VICTIM/new', 'w')\ndef reference(x):\n    return x * 2", "Read-only"),
    "forges": (
        "import os\nopen('outcome.json', 'w').write('{\"outcome\": \"ok\", \"stage\": \"run\"}')\nos._exit(0)", "no plain file",
    ),
}  # fmt: skip


def test_hostile_references(tmp_path: Path) -> None:
    """A golden is written for the reference that computes one, and for no other."""
    house = House(new_home(tmp_path / "home"))
    catalog = Downstream(tmp_path / "catalog")
    for name, (reference, _) in REFERENCES.items():
        catalog.workload(name, reference=reference.replace("VICTIM", str(tmp_path)), jax=GOOD)
    catalog.workload("good", jax=GOOD)
    (catalog.root / "golden/good/y.npy").unlink()
    before = tree(catalog.root)
    command = house.command("golden", "update", "--write", *REFERENCES, "good", "--catalog", catalog.root)
    # Their tracebacks belong to what it says.
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, **house.env}, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "mistake in matrix itself" not in done.stderr
    for name, (_, reason) in REFERENCES.items():
        said = re.search(rf"^{name}: .*$", done.stderr, re.MULTILINE)
        assert said, (name, done.stderr)
        assert re.search(reason, said[0]), said[0]
    after = tree(catalog.root)
    assert {path for path in after if after[path] != before.get(path)} == {"golden/good", "golden/good/y.npy"}
    assert processes(command=str(house.home)) == []
