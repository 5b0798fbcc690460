"""Compile the fast part of comparisons, ``gate.c`` and ``text.c``, once per machine by the Zig that links kernels.

Zig comes from installed packages or from the Python environment. Nothing is downloaded, and no compiler of the machine is called.
Without Zig, NumPy and Python compute the same results.

For two float32 arrays of 100 MiB, NumPy in blocks takes at least 10 times as long as reading them, and compiled code takes less
than reading. For a million numbers in text, regular expressions with NumPy take 4.3 times as long as fpcmp, and compiled code half
as long.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from mlir_matrix.actions.numerics.criteria import Counts, Criteria
from mlir_matrix.actions.numerics.dtypes import Array
from mlir_matrix.base.files import beside, locked
from mlir_matrix.base.paths import find_home
from mlir_matrix.catalog.releases import number

#: The fewest elements for compiled code. For fewer, NumPy is as fast as calling it.
WORTHWHILE = 1 << 14
_SOURCES = ("gate.c", "text.c")
_FLAGS = (
    "-std=c11",
    "-O3",
    "-g0",
    "-shared",
    "-fPIC",
    "-nostdlib",
    "-ffp-contract=off",
    "-march=native",
    "-fno-sanitize=all",
)
_DTYPES = ("f16", "bf16", "f32", "f64")
#: The fewest elements for a thread.
_PART = 1 << 17
_NONE = 2**64 - 1
#: The least bound for compiled code. Products of smaller bounds with elements may be subnormal.
_LEAST = 1e-100


class _Counts(ctypes.Structure):
    """``Counts`` of ``gate.c``."""

    _fields_ = [
        (field.name, ctypes.c_int64 if isinstance(field.default, int) else ctypes.c_double) for field in fields(Counts)
    ]


class _Bounds(ctypes.Structure):
    _fields_ = [
        ("atol", ctypes.c_double),
        ("rtol", ctypes.c_double),
        ("max_ulp", ctypes.c_uint64),
        ("ulp_bound", ctypes.c_double),
    ]


def takes(dtype: str, criteria: Criteria) -> bool:
    """Return whether compiled code supports this type and these criteria."""
    usual = all(bound == 0 or _LEAST < bound < float("inf") for bound in (criteria.atol, criteria.rtol))
    ulps = criteria.max_ulp is None or criteria.max_ulp < 2**53
    return dtype in _DTYPES and criteria.plain and criteria.bounds is None and usual and ulps


def count(actual: Array, expected: Array, dtype: str, criteria: Criteria) -> list[Counts] | None:
    """Return the counts of parts of two arrays; None where compiled code is not available."""
    library = load()
    if library is None or not all(each.flags.c_contiguous and each.flags.aligned for each in (actual, expected)):
        return None
    function = getattr(library, f"matrix_gate_{dtype}")
    ulp = criteria.max_ulp
    bounds = _Bounds(criteria.atol, criteria.rtol, _NONE if ulp is None else int(ulp), ulp or 0.0)
    width, left, right = actual.itemsize, actual.ctypes.data, expected.ctypes.data

    # One contiguous part of memory per thread, because each part restarts the prefetcher of the memory.
    threads = max(1, min(actual.size // _PART, len(os.sched_getaffinity(0))))
    stretch = -(-actual.size // threads)

    def part(start: int) -> Counts:
        counts = _Counts()
        size = min(stretch, actual.size - start)
        function(
            ctypes.c_void_p(left + start * width), ctypes.c_void_p(right + start * width), ctypes.c_int64(size),
            ctypes.byref(bounds), ctypes.byref(counts),
        )  # fmt: skip
        return Counts(*(getattr(counts, field[0]) for field in _Counts._fields_))

    # ctypes releases the interpreter's lock, so this thread processes the first part while others process theirs.
    others = [_helpers().submit(part, start) for start in range(stretch, actual.size, stretch)]
    return [part(0), *(other.result() for other in others)]


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="compare")


@cache
def load() -> ctypes.CDLL | None:
    """Return the library, compiled if needed; None if there is no compiler."""
    folder = Path(__file__).parent
    sources = [folder / name for name in _SOURCES]
    try:
        path = find_home().cache / "native" / f"{_key(sources)}.so"
        if not path.exists():
            _make(sources, path)
        return ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError):
        # There is no Zig, or the disk is full, or it fails otherwise. NumPy gives the same results.
        return None


def _key(sources: Sequence[Path]) -> str:
    """Return the digest of everything on which the library depends: its sources, flags and the CPU."""
    digest = hashlib.sha256(" ".join(_FLAGS).encode())
    for source in sources:
        digest.update(source.read_bytes())
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        lines = (line for line in file if line.startswith(("model name", "flags", "Features")))
        digest.update("".join(sorted(set(lines))).encode())
    return digest.hexdigest()[:20]


def _make(sources: Sequence[Path], path: Path) -> None:
    program = zig()
    if program is None:
        raise FileNotFoundError("there is no Zig")
    with locked(path.parent / "lock"):
        # Another process may have made it while this one waited, and ``beside`` removes a file at its path.
        if not path.exists():
            with beside(path) as folder:
                _compile(program, sources, str(folder))
                os.replace(folder / "made.so", path)


def _compile(program: Path, sources: Sequence[Path], scratch: str) -> None:
    """Make ``made.so`` in a folder, which is all that the compiler writes to."""
    variables = {
        "ZIG_GLOBAL_CACHE_DIR": scratch,
        "ZIG_LOCAL_CACHE_DIR": scratch,
        "HOME": scratch,
        "TMPDIR": scratch,
    }
    subprocess.run(
        [program, "cc", *_FLAGS, "-o", f"{scratch}/made.so", *map(str, sources)], cwd=scratch,
        env={**variables, "PATH": "", "LC_ALL": "C"}, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=120,
    )  # fmt: skip


def zig() -> Path | None:
    """Return the Zig program of the newest installed release, or of this Python environment."""
    here = find_home().packages.glob("ziglang-*/ziglang/zig")
    newest = max(here, key=lambda path: (number(path.parts[-3].removeprefix("ziglang-")), path), default=None)
    if newest is not None:
        return newest
    spec = find_spec("ziglang")
    return Path(spec.origin).with_name("zig") if spec is not None and spec.origin else None
