"""Count what a kernel executes: its instructions and simulated cache misses, by Valgrind's callgrind.

params   those of ``run``; ``draws`` and ``repeat`` are not read
inputs   ``kernel``: the executable that links the kernel with the driver for benchmarks; ``arg-NAME``: an .npy file each
outputs  ``counts``: JSON with ``instructions``, ``d1_misses``, ``ll_misses``, ``allocations``, ``peak_bytes``, ``total_bytes``,
         and ``executed``: how often each address was executed. Or ``absent``: why this kernel cannot be counted

The driver calls the kernel twice and lets callgrind collect the second call alone, so that the caches are warm. Arguments,
variables and addresses are the same in each run, and so are the numbers.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

from mlir_matrix.actions.contract import Action, write_json
from mlir_matrix.actions.params import RunParams
from mlir_matrix.actions.runtime import programs
from mlir_matrix.actions.runtime.driver import SHORT_NAME, execute, judge, tensor_arguments, with_short_names

_CALLGRIND = "callgrind-amd64-linux"
#: Sizes in bytes, associativity, line: caches of a common core. What the machine has must not matter.
_OPTIONS = (
    "--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64", "--collect-atstart=no",
    "--dump-instr=yes", "--dump-line=no", "--compress-strings=no", "--compress-pos=no", "--separate-threads=no",
    "--quiet", "--callgrind-out-file=counted",
)  # fmt: skip
#: The positions of events in a line of costs, after the address.
_INSTRUCTIONS, _D1, _LL = 0, (4, 5), (7, 8)


def run(action: Action[RunParams]) -> None:
    """Write the counts. Raise ActionFailed or ActionCrashed if the kernel fails, MachineFailed if Valgrind cannot run."""
    with tempfile.TemporaryDirectory(prefix="count-", dir=".") as name:
        folder = Path(name)
        write_json(action.outputs["counts"], _counted(action, folder))


def _counted(action: Action[RunParams], folder: Path) -> dict[str, Any]:
    kernel = with_short_names(action, action.inputs["kernel"], folder)
    (program,) = programs.command(_CALLGRIND)
    command = [program, *_OPTIONS, f"./{SHORT_NAME}", *tensor_arguments(kernel), "--count", "--timings", "usage"]
    variables = {"VALGRIND_LIB": os.path.dirname(program), "VALGRIND_LAUNCHER": program}
    code, printed, complaint = execute(command, folder, variables, inside=True)
    if code == -signal.SIGILL:
        # The kernel ran once without Valgrind, so the CPU knows its instructions.
        why = "the kernel has an instruction beyond it, or traps in its second call"
        return {"absent": f"callgrind counts code up to x86-64-v3, and {why}"}
    judge(code, printed, complaint)
    usage = json.loads((folder / "usage").read_text())
    allocated = {key: usage[key] for key in ("allocations", "peak_bytes", "total_bytes")}
    return events((folder / "counted").read_text()) | allocated


def events(text: str) -> dict[str, Any]:
    """Read what callgrind wrote: one line for each address, ``0xADDRESS`` and the events there."""
    totals = [0] * 9
    executed: dict[int, int] = {}
    inclusive = False
    for line in text.splitlines():
        if line.startswith("calls="):
            # The costs of the called function follow, which has lines of its own.
            inclusive = True
        elif line.startswith("0x"):
            if not inclusive:
                address, *events = line.split()
                counts = [int(each) for each in events]
                totals = [total + count for total, count in zip(totals, counts + [0] * (9 - len(counts)), strict=True)]
                at = int(address, 16)
                executed[at] = executed.get(at, 0) + counts[_INSTRUCTIONS]
            inclusive = False
    return {
        "instructions": totals[_INSTRUCTIONS],
        "d1_misses": sum(totals[each] for each in _D1),
        "ll_misses": sum(totals[each] for each in _LL),
        "executed": {f"{at:x}": count for at, count in sorted(executed.items())},
    }
