"""Run Bazel once: its flags, its events, and its end, also after a signal."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType

from mlir_matrix.actions.sandbox import isolation
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.bazel.bep import Event, Events
from mlir_matrix.plan.request import ExecutorOptions

_POLL_S = 0.1
#: Characters of a line in an error.
_LONGEST = 600
#: Disk space of cached results.
_MOST_KEPT = "10G"
#: Seconds to wait for Bazel's end after a signal.
_PATIENCE_S = 20.0
#: Seconds without a finished action until a note, and between two notes.
STALL_NOTE_S = 120.0
#: Seconds without a finished action until the run ends.
STALL_END_S = 3600.0


@contextlib.contextmanager
def _signals_deferred() -> Iterator[None]:
    """Handle signals like Ctrl-C after the block: Python drops an exception that a handler raises in a hook of fork."""
    pending: list[tuple[int, FrameType | None]] = []
    handlers = {
        signum: handler
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if callable(handler := signal.getsignal(signum))
    }
    for signum in handlers:
        signal.signal(signum, lambda *call: pending.append(call))
    try:
        yield
    finally:
        for held, handler in handlers.items():
            signal.signal(held, handler)
        for number, frame in pending:
            handlers[signal.Signals(number)](number, frame)


class BazelBuild:
    """A running ``bazel build`` in a workspace."""

    def __init__(self, command: Sequence[str], workspace: Path, log: Path, stream: Path) -> None:
        """``command`` writes its events to the file ``stream`` and its output to ``log``."""
        self._log = log
        stream.write_bytes(b"")
        self._stream = open(stream, "rb")  # noqa: SIM115 - as long as we are
        try:
            with _signals_deferred(), open(log, "wb") as said:
                self._process = subprocess.Popen(
                    command,
                    cwd=workspace,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    # Only this process gets Ctrl-C, and then ends Bazel. If this process is killed, Bazel gets SIGINT.
                    start_new_session=True,
                    preexec_fn=partial(isolation.die_with_parent, signal.SIGINT),  # noqa: PLW1509 - no other threads now
                )
        except KeyboardInterrupt:
            self.close()
            raise

    def events(self) -> Iterator[Event | None]:
        """Yield events until the build has ended; yield None several times a second while there is none."""
        events = Events()
        ended = False
        while True:
            chunk = self._stream.read()
            yield from events.feed(chunk)
            if ended and not chunk:
                return
            if not chunk:
                yield None
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_POLL_S)
                    ended = True

    def close(self) -> None:
        """End the build if it runs. Bazel's server continues, for the next build."""
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                break
            self._process.send_signal(signum)
            try:
                self._process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                continue
        self._process.wait()
        self._stream.close()

    def errors(self) -> list[str]:
        """Return the error lines of the output, or all lines if there are none."""
        said = self._log.read_text(encoding="utf-8", errors="replace")
        return complaints(said) or [line.strip() for line in said.splitlines()]

    def failure(self, keep: Path) -> InfrastructureError:
        """Return an error with the first errors of Bazel, and move its whole output to the file ``keep``."""
        said = "\n".join(line[:_LONGEST] for line in self.errors()[:6]) or "no output"
        keep.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(self._log, keep)
        return InfrastructureError(
            f"Bazel could not build (exit code {self._process.poll()}):\n{said}\nfull output: {keep}"
        )


class StallDetector:
    """Detects a remote execution service that finishes no action.

    If no worker has the properties of an action, it waits forever, and services report nothing. A service that is busy
    with other clients looks the same. So the run ends only after an hour.
    """

    def __init__(self, service: str, properties: Sequence[tuple[str, str]]) -> None:
        """``service``: its address; empty on this machine, which never stalls."""
        self._service = service
        self._properties = ", ".join(f"{key}={value}" for key, value in properties)
        self._progressed = self._noted = time.monotonic()

    def progressed(self) -> None:
        """Note a finished action."""
        self._progressed = self._noted = time.monotonic()

    def note(self) -> str:
        """Return a note for the user that is due now, or an empty string."""
        now = time.monotonic()
        if not self._service or now - self._noted < STALL_NOTE_S:
            return ""
        self._noted = now
        return self._reason(now)

    def end(self) -> str:
        """Return the reason to end the run, or an empty string."""
        now = time.monotonic()
        return self._reason(now) if self._service and now - self._progressed >= STALL_END_S else ""

    def _reason(self, now: float) -> str:
        wanted = f" (--exec-property {self._properties})" if self._properties else ""
        return (
            f"no action came back from {self._service} for {now - self._progressed:.0f} s: it is busy, or it has no worker with "
            f"the properties that actions ask for{wanted}"
        )


def complaints(said: str) -> list[str]:
    """Return the error lines of Bazel's output."""
    lines = (line.strip() for line in said.splitlines())
    return [line for line in lines if line.startswith(("ERROR:", "FATAL:", "Error"))]


def flags_of(
    options: ExecutorOptions, jobs: int, *, cache: Path, stream: Path, settings: Sequence[str], groups: str
) -> list[str]:
    """Return the flags of ``bazel build``."""
    flags = [
        "--noenable_workspace",
        "--lockfile_mode=off",
        "--keep_going",
        f"--build_event_json_file={stream}",
        # Progress for the stall detector.
        *(["--build_event_publish_all_actions"] if options.remote else []),
        # Local paths of files, also if a remote cache has them.
        "--nobuild_event_json_file_path_conversion",
        f"--output_groups={groups}",
        f"--jobs={jobs}",
        f"--local_resources=cpu={jobs}",
        f"--worker_max_multiplex_instances=MatrixAction={jobs}",
        "--sandbox_default_allow_network=false",
        "--show_result=0",
        "--curses=no",
        "--color=no",
        "--noshow_progress",
        *settings,
    ]
    if options.remote:
        flags += [f"--remote_executor={options.remote}", "--strategy=MatrixAction=remote"]
        # Download only requested outputs. An environment has thousands of files: if all were sent at once, each would
        # exceed the timeout of a small service.
        flags += ["--remote_download_outputs=toplevel", "--remote_max_connections=2", "--remote_timeout=300"]
    else:
        # All workspaces share this cache.
        kept = [f"--disk_cache={cache}", f"--experimental_disk_cache_gc_max_size={_MOST_KEPT}"]
        flags += ["--strategy=MatrixAction=worker,sandboxed", *kept]
    return flags + ([f"--remote_cache={options.remote_cache}"] if options.remote_cache else [])
