"""Programs that do what no program should, each with the outcome that it is to get.

``VICTIM`` in a source is a folder that it must not change, ``PORT`` a port that it must not reach, ``STABLEHLO`` the file
that its action should write.
"""

from __future__ import annotations

import os

#: How what must not be left running is called: not like that of other tests at the same time.
LEFT = f"mx-left-{os.getpid()}"
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
    "sees_no_sibling": (
        "import os\nfound = os.listdir('..')\nassert found == [os.path.basename(os.getcwd())], found" + GOOD, "pass", "",
    ),
    "writes_elsewhere": (
        "open('VICTIM/new', 'w').write('x')" + GOOD, "import-failed", "Read-only file system|No such file or directory",
    ),
    "writes_our_code": (
        "import os\nfrom mlir_matrix.actions.runtime import source as ingress\nos.open(ingress.__file__, os.O_WRONLY)" + GOOD,
        "import-failed", "Read-only file system",
    ),
    "writes_its_inputs": (
        "open('in/jax.py', 'a').write('x')" + GOOD, "import-failed", "Read-only file system|Permission denied",
    ),
    "adds_an_input": ("open('in/more', 'w').write('x')" + GOOD, "import-failed", "Read-only file system"),
    "writes_bytecode": (
        "import os, sys\nfolder = sys.pycache_prefix or os.path.dirname(os.__file__)\n"
        "os.open(folder + '/x.pyc', os.O_CREAT | os.O_WRONLY)" + GOOD,
        "import-failed", "Read-only file system",
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
        "import-failed", "out is missing",
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
#: What only namespaces hold: without them these would reach the machine.
CONTAINED = frozenset({
    "writes_its_inputs", "adds_an_input",
    "kills_its_parent", "kills_everyone", "socket", "writes_elsewhere", "writes_our_code", "writes_bytecode",
    "sees_nobody", "sees_no_sibling", "removes_its_folder", "leaves_its_folder", "protocol_of_others", "t_kills_its_parent",
})  # fmt: skip
#: How a program goes on that passes: JAX's by the route that takes fewest actions and packages.
CELLS = {"jax": "jax/xla-cpu/xla-cpu", "pytorch": "pytorch/linalg-loops/x86_64", "mlir": "mlir/linalg-loops/x86_64"}
CASES = {
    f"{CELLS[framework]}/{name}": case
    for framework, cases in (("jax", JAX), ("pytorch", TORCH), ("mlir", MLIR))
    for name, case in cases.items()
}
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
    "writes": (
        "open('VICTIM/new', 'w')\ndef reference(x):\n    return x * 2", "Read-only file system|No such file or directory",
    ),
    "forges": (
        "import os\nopen('outcome.json', 'w').write('{\"outcome\": \"ok\", \"stage\": \"run\"}')\nos._exit(0)", "no plain file",
    ),
}  # fmt: skip
