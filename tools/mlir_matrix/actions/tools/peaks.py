"""Measure what one core of this machine can do at most, by the kernels in ``tools/driver/peaks.c``.

params   ``triple``: of this machine, as Zig names it; ``cpu``: the level of its CPU, or empty; ``buffers``: by level of the memory
         the bytes of a buffer that fits into it; ``number``: a number that no other measurement has
inputs   ``source``: the kernels in C; ``runtime``: what ``link_kit`` makes
outputs  ``peaks``: GFLOP/s by dtype and GB/s by level
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mlir_matrix.actions.contract import Action, ActionFailed
from mlir_matrix.actions.params import PeaksParams
from mlir_matrix.actions.tools.link_kit import zig, zig_environment


def run(action: Action[PeaksParams]) -> None:
    """Compile, link and run the kernels. Raise ActionFailed if this machine cannot."""
    cpu, source, runtime = action.params["cpu"], action.inputs["source"], action.inputs["runtime"]
    # Products and sums are fused, and vectors are as wide as the source says, not as LLVM likes them for this CPU.
    flags = ["-std=c11", "-O2", "-g0", "-ffp-contract=fast"]
    flags += [f"-mcpu={cpu}", "-mprefer-vector-width=512"] if cpu else []
    buffers = [f"{level}:{size}" for level, size in action.params["buffers"].items()]
    with tempfile.TemporaryDirectory(prefix="peaks-", dir=".") as folder:
        scratch = Path(folder).absolute()
        kernels, program = str(scratch / "peaks.o"), str(scratch / "peaks")
        compiler = [zig(), "cc", "-target", action.params["triple"], *flags, "-c", source, "-o", kernels]
        _call(compiler, scratch, "peaks.c does not compile")
        linker = [zig(), "ld.lld", "-static", "--gc-sections", "-o", program, kernels, runtime]
        _call(linker, scratch, "the kernels cannot be linked")
        found = _call([program, *buffers], scratch, "the kernels do not run")
    Path(action.outputs["peaks"]).write_text(found, encoding="utf-8")


def _call(words: Sequence[str], scratch: Path, failure: str) -> str:
    done = subprocess.run(
        words, env=zig_environment(scratch), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise ActionFailed(failure, diagnostics=done.stdout + done.stderr)
    return done.stdout
