"""Call a kernel on its arguments, or on several draws of them.

params   ``arguments``, ``results``: lists of ``{"name", "dtype", "shape"}`` in the order of the kernel's signature; a
         size of a result may be null where only the kernel knows it. ``runner``: a program of the environment
         and its options, put before the executable (an emulator). ``repeat``: how often to call it, 1 if absent.
         ``draws``: the numbers of the draws, where there are several
inputs   ``kernel``: the executable that ``link`` makes; ``arg-NAME``: an .npy file for each argument
outputs  ``out-NAME``: an .npy file for each result

With ``draws`` the names are ``arg-DRAW-NAME`` and ``out-DRAW-NAME``, and a failed call fails no other: its results are empty
files, and the output ``failures`` has, by draw, the reason.

Beside the outputs it leaves ``metrics.json``: ``kernel_ns`` (the time of each call), ``allocations``,
``peak_bytes``, ``leaked_blocks`` and ``leaked_bytes`` (of the first call), ``poisons``: under how many poison values
the results are the same, 1 where the second run was left out. It belongs to no digest: times differ.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from mlir_matrix.actions.params import RunParams, Tensor
from mlir_matrix.actions.runtime import isolation, programs
from mlir_matrix.actions.runtime.contract import (
    METRICS,
    Action,
    ActionCrashed,
    ActionFailed,
    MachineFailed,
    signal_name,
    write_json,
)
from mlir_matrix.actions.tools.program import opened

#: The driver's exit codes (tools/driver/fail.h): what it says itself begins here, and one is not the kernel's fault.
_DRIVER_CODES = 64
DRIVER_IO = 74
#: Seconds of CPU time: a kernel that takes longer is not run again over other poison.
_SECOND_WITHIN = 5
#: Bytes of stack for every kernel, whatever limit the shell sets; and of its output.
_STACK = 64 << 20
_TEXT_LIMIT = 64 << 10


def run(action: Action[RunParams]) -> None:
    """Raise ActionFailed where the kernel or its results are wrong, ActionCrashed where a signal ended it.

    With several draws these are written down. An OSError or MachineFailed is the machine's: a file that cannot be read.
    """
    if "draws" in action.params:
        write_json(action.outputs["failures"], {str(draw): why for draw, why in _failures(action)})
    else:
        with opened(action) as call:
            _call(call)


def _failures(action: Action[RunParams]) -> Iterator[tuple[int, str]]:
    """Call the kernel on each draw; yield the reasons of failed calls."""
    for draw in action.params["draws"]:
        one = _of_draw(action, draw)
        try:
            _call(one)
            continue
        except ActionFailed as error:
            yield draw, f"run-failed: {error.reason}"
        except ActionCrashed as error:
            yield draw, f"crashed: {error}"
        for path in one.outputs.values():
            Path(path).write_bytes(b"")


def _of_draw(action: Action[RunParams], draw: int) -> Action[RunParams]:
    """Return the call of one draw, with the names of a single call."""
    params = action.params
    inputs = {f"arg-{each['name']}": action.inputs[f"arg-{draw}-{each['name']}"] for each in params["arguments"]}
    return Action(
        params=params,
        inputs={"kernel": action.inputs["kernel"], **inputs},
        outputs={f"out-{each['name']}": action.outputs[f"out-{draw}-{each['name']}"] for each in params["results"]},
    )


def _call(action: Action[RunParams]) -> None:
    with tempfile.TemporaryDirectory(prefix="run-", dir=".") as folder:
        kernel = _executable(Path(action.inputs["kernel"]).absolute(), Path(folder).absolute())
        runner = action.params.get("runner", [])
        words = [*programs.command(runner[0]), *runner[1:]] if runner else []
        command = [*words, str(kernel), *driver_arguments(action)]
        code, printed, complaint = execute(command, Path(folder))
    # The kernel needs no loader.
    programs.check_started(words, code, complaint)
    judge(code, printed, complaint)
    check_written(action)


def execute(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run a kernel within limits. Return its exit status (minus a signal's number), stdout and stderr.

    It sees no variables but those given: nothing of the machine can be found by name.
    """
    with (folder / "stdout").open("w+b") as stdout, (folder / "stderr").open("w+b") as stderr, _limits():
        done = subprocess.run(
            command,
            env={"LC_ALL": "C", "PATH": "", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            # A function to call there would copy the process first, which takes longer than the kernel.
            preexec_fn=None if isolation.ends_together else isolation.die_with_parent,
            check=False,
        )
        return done.returncode, _text(stdout.fileno()), _text(stderr.fileno())


def check_written(action: Action[RunParams]) -> None:
    """Raise ActionFailed for a kernel that exited with 0 before the driver wrote the results."""
    missing = [name for name, path in action.outputs.items() if not os.path.isfile(path)]
    if missing:
        raise ActionFailed(f"the kernel ended by itself, with exit code 0, and left no {', '.join(missing)}")


def driver_arguments(action: Action[RunParams]) -> list[str]:
    """Return the arguments of the driver."""
    params = action.params
    words: list[str] = []
    for tensor in params["arguments"]:
        words += ["--in", _spec(tensor, action.inputs[f"arg-{tensor['name']}"])]
    for tensor in params["results"]:
        words += ["--out", _spec(tensor, action.outputs[f"out-{tensor['name']}"])]
    words += ["--repeat", str(params.get("repeat", 1)), "--second-within", str(_SECOND_WITHIN)]
    return [*words, "--timings", METRICS]


def _spec(tensor: Tensor, path: str) -> str:
    """Describe a tensor to the driver: ``f32:8x?:y.npy``."""
    sizes: Sequence[int | None] = tensor["shape"]
    return f"{tensor['dtype']}:{'x'.join('?' if size is None else str(size) for size in sizes)}:{path}"


def _executable(kernel: Path, scratch: Path) -> Path:
    """Return the kernel, or an executable copy where a store has lost the permission."""
    if os.access(kernel, os.X_OK):
        return kernel
    copy = scratch / "kernel"
    shutil.copyfile(kernel, copy)
    copy.chmod(0o755)
    return copy


@contextmanager
def _limits() -> Iterator[None]:
    """Set the same stack for every kernel that starts here, and disable core files."""
    before = {kind: resource.getrlimit(kind) for kind in (resource.RLIMIT_STACK, resource.RLIMIT_CORE)}
    _, hard = before[resource.RLIMIT_STACK]
    resource.setrlimit(resource.RLIMIT_STACK, (_STACK if hard == resource.RLIM_INFINITY else min(_STACK, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, before[resource.RLIMIT_CORE][1]))
    try:
        yield
    finally:
        for kind, value in before.items():
            resource.setrlimit(kind, value)


def _text(descriptor: int) -> str:
    """Return the start of a file of output."""
    data = os.pread(descriptor, _TEXT_LIMIT, 0)
    cut = "\n[cut]" if os.fstat(descriptor).st_size > len(data) else ""
    return data.decode("utf-8", "replace") + cut


def judge(code: int, printed: str, complaint: str) -> None:
    """Raise the error that the exit of a kernel stands for."""
    text = printed + complaint
    if code == 0:
        return
    if code < 0:
        raise ActionCrashed(signal_name(-code), diagnostics=text)
    if code == DRIVER_IO:
        raise MachineFailed(complaint.strip())
    lines = complaint.strip().splitlines()
    if code >= _DRIVER_CODES and lines:
        raise ActionFailed(lines[-1], diagnostics=text)
    raise ActionFailed(f"the kernel ended by itself, with exit code {code}", diagnostics=text)
