"""Run a kernel by the driver, and turn the driver's exit code into an outcome."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from mlir_matrix.actions.contract import (
    METRICS,
    Action,
    ActionCrashed,
    ActionFailed,
    MachineFailed,
    Role,
    signal_name,
)
from mlir_matrix.actions.params import RunParams, Tensor
from mlir_matrix.actions.sandbox import isolation

#: Exit codes of the driver (tools/driver/fail.h). Its own codes begin here. ``DRIVER_IO`` is a failure of the machine.
_DRIVER_CODES = 64


DRIVER_IO = 74


#: Seconds of CPU time. The driver repeats a kernel over other poison values only if the kernel takes less.
_SECOND_WITHIN = 5


#: Bytes of stack for every kernel, whatever limit the shell sets.
_STACK = 64 << 20


_TEXT_LIMIT = 64 << 10
#: The name of a kernel that is measured, in its folder.
SHORT_NAME = "kernel"


def execute(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None, *, inside: bool = False
) -> tuple[int, str, str]:
    """Run a kernel within limits. Return its exit status (minus a signal's number), stdout and stderr.

    ``folder``: for its output; with ``inside`` it is also the current folder of the kernel.
    The kernel sees only ``environment``, LC_ALL and an empty PATH, so it finds no program or library of the machine by name.
    """
    with (folder / "stdout").open("w+b") as stdout, (folder / "stderr").open("w+b") as stderr, _limits():
        done = subprocess.run(
            command,
            cwd=folder if inside else None,
            env={"LC_ALL": "C", "PATH": "", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            # With a function here, Python copies this process first, which takes longer than the kernel.
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
    words = tensor_arguments(action)
    words += ["--repeat", str(action.params.get("repeat", 1)), "--second-within", str(_SECOND_WITHIN)]
    return [*words, "--timings", METRICS]


def tensor_arguments(action: Action[RunParams]) -> list[str]:
    """Return the arguments of a driver that name the files of a kernel's arguments and results."""
    words: list[str] = []
    for tensor in action.params["arguments"]:
        words += ["--in", _spec(tensor, action.inputs[Role.ARGUMENT.of(tensor["name"])])]
    for tensor in action.params["results"]:
        words += ["--out", _spec(tensor, action.outputs[Role.RESULT.of(tensor["name"])])]
    return words


def with_short_names(action: Action[RunParams], kernel: str, folder: Path) -> Action[RunParams]:
    """Put a kernel and its arguments into its current folder, under names that are the same in each run.

    The lengths of a program's arguments move its stack, and so change which lines of the caches conflict.
    """
    shutil.copyfile(kernel, folder / SHORT_NAME)
    (folder / SHORT_NAME).chmod(0o755)
    inputs: dict[str, str] = {}
    for number, tensor in enumerate(action.params["arguments"]):
        role = Role.ARGUMENT.of(tensor["name"])
        inputs[role] = f"in{number}"
        (folder / inputs[role]).symlink_to(Path(action.inputs[role]).absolute())
    outputs = {Role.RESULT.of(each["name"]): f"out{number}" for number, each in enumerate(action.params["results"])}
    return Action(params=action.params, inputs=inputs, outputs=outputs)


def _spec(tensor: Tensor, path: str) -> str:
    """Describe a tensor to the driver: ``f32:8x?:y.npy``."""
    sizes: Sequence[int | None] = tensor["shape"]
    return f"{tensor['dtype']}:{'x'.join('?' if size is None else str(size) for size in sizes)}:{path}"


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
    """Return the beginning of an output file."""
    data = os.pread(descriptor, _TEXT_LIMIT, 0)
    cut = "\n[cut]" if os.fstat(descriptor).st_size > len(data) else ""
    return data.decode("utf-8", "replace") + cut


def judge(code: int, printed: str, complaint: str) -> None:
    """Raise the error for the exit code of a kernel; return if it is 0."""
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
