"""Time one kernel, or two in turn, each sample in a process of its own.

params   those of ``run``; ``timing``: how long a batch is, on which core (null: that which is least busy); ``pairs``: how many
         samples of each kernel
inputs   ``kernel``, or ``kernel-0`` and ``kernel-1``: executables that link a kernel with the driver that measures
         (``tools/driver/bench.c``); ``arg-NAME``: an .npy file for each argument, the same for both
outputs  ``samples``: JSON with ``ns``, the nanoseconds of a call by pair and kernel, ``calls`` of a batch, ``core``

A sample calls the kernel once to warm it, then in batches, of which the least counts. A pair is A B B A, of which the lesser of
both samples counts: a machine that becomes slower is no disadvantage to one of them, and a disturbed process does not count.
With others at work, equal kernels then differ by 0.2 %, and a tenth of the pairs by 0.6 %; by A B and longer batches, by 2 to 5 %
(24 kernels). Nothing caches times: ``timing`` has a nonce.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from mlir_matrix.actions.contract import Action, write_json
from mlir_matrix.actions.params import TimePairsParams
from mlir_matrix.actions.runtime import timing
from mlir_matrix.actions.runtime.driver import SHORT_NAME, execute, judge, tensor_arguments, with_short_names

_COSTS = "costs.json"


def run(action: Action[TimePairsParams]) -> None:
    """Write the samples. Raise ActionFailed or ActionCrashed if a kernel fails, MachineFailed if the machine does."""
    wanted = action.params["timing"]
    core = wanted["core"] if wanted["core"] is not None else timing.least_busy_core()
    timing.pin(core)
    names = [name for name in ("kernel", "kernel-0", "kernel-1") if name in action.inputs]
    with tempfile.TemporaryDirectory(prefix="time-", dir=".") as folder:
        kernels = [_Kernel(action, action.inputs[name], Path(folder) / str(at)) for at, name in enumerate(names)]
        for kernel in kernels:
            kernel.calibrate(wanted["batch_s"] * 1e9)
        pairs = []
        for _ in range(action.params["pairs"]):
            samples = [kernel.sample() for kernel in (*kernels, *reversed(kernels))]
            pairs.append([min(samples[at], samples[-1 - at]) for at in range(len(kernels))])
    write_json(action.outputs["samples"], {"ns": pairs, "calls": [kernel.calls for kernel in kernels], "core": core})


class _Kernel:
    """A kernel in a folder of its own."""

    def __init__(self, action: Action[TimePairsParams], kernel: str, folder: Path) -> None:
        folder.mkdir()
        named = with_short_names(action, kernel, folder)
        self._command = [f"./{SHORT_NAME}", *tensor_arguments(named), "--timings", _COSTS]
        self._folder = folder
        self.calls, self._batches = 1, 1

    def calibrate(self, batch_ns: float) -> None:
        """Find how many calls make a batch."""
        clock_ns = self._measure(1, 1)["clock_ns"]
        self.calls = timing.calls_per_batch(lambda calls: min(self._measure(calls, 2)["batch_ns"]), batch_ns, clock_ns)
        self._batches = timing.batches_of(self.calls * self.sample())

    def sample(self) -> float:
        """Return the nanoseconds of a call."""
        return float(min(self._measure(self.calls, self._batches)["batch_ns"])) / self.calls

    def _measure(self, calls: int, batches: int) -> dict[str, Any]:
        command = [*self._command, "--calls", str(calls), "--batches", str(batches)]
        judge(*execute(command, self._folder, inside=True))
        found: dict[str, Any] = json.loads((self._folder / _COSTS).read_text())
        return found
