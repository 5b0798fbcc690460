"""The command line. Each verb is a module, imported only when it is called."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from types import FrameType
from typing import Any

import click

from mlir_matrix import __version__
from mlir_matrix.base.errors import InfrastructureError, MatrixError
from mlir_matrix.cli.lazy import VerbGroup

#: The verbs by name. ``matrix --help`` imports none of them.
VERBS = {
    "plan": "Show which tests would run, and why.",
    "run": "Run tests and compare each outcome with the expected one.",
    "bisect": "Find what changed the result of tests: a release, a commit, or pins.",
    "expect": "Propose which tests are expected to fail, by what fails now.",
    "inputs": "Write the inputs of a workload as files.",
    "explain": "Show everything that decides one test, with file and line.",
    "compare": "Compare the numbers in two files or folders.",
    "golden": "Manage expected outputs and numeric tolerances.",
    "init": "Start a catalog: a workload, a suite and a CI workflow.",
    "conflicts": "Find pairs of IR tests that cannot both pass.",
    "schema": "Print the JSON Schema of a file format.",
    "toolchain": "Lock, install, verify and upgrade compilers and frameworks.",
    "report": "Report what works: workloads or operators by path and target.",
    "history": "Ask what earlier runs found: flaky, slower, first bad.",
    "cache": "Remove old results from the action cache.",
    "container": "Build and verify container images of environments.",
    "machine": "Describe build machines: what they have, and which tests they run.",
    "merge": "Merge the results of all shards of a run.",
    "doctor": "Report what this machine has and what it lacks.",
}

#: Thresholds of the garbage collector. Plans and results have no cycles; Python's default of 700 costs a tenth of the time.
COLLECTING = (100_000, 20, 20)


@click.group(
    cls=VerbGroup,
    verbs=VERBS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: matrix plan, matrix run. Each verb has --help with examples.",
)
@click.version_option(__version__, prog_name="matrix")
def matrix() -> None:
    """Test MLIR pipelines end to end: framework × pipeline × target, compared with float64 references."""


class _Stopped(KeyboardInterrupt):
    """Raised by SIGTERM and SIGHUP."""

    def __init__(self, signum: int) -> None:
        super().__init__()
        self.signum = signum


def _stop(signum: int, frame: FrameType | None) -> None:
    raise _Stopped(signum)


def _listen() -> None:
    """Let SIGTERM and SIGHUP end the program like Ctrl-C, unless they are ignored, for example by nohup."""
    for signum in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) == signal.SIG_DFL:
            signal.signal(signum, _stop)


def _end_with_parent() -> None:
    """End as by SIGTERM when the process that started this one ends, if it asks for that: it may be killed."""
    if os.environ.pop("MATRIX_END_WITH_PARENT", ""):
        from mlir_matrix.actions.runtime.isolation import die_with_parent

        die_with_parent(signal.SIGTERM)


def _say(error: Exception) -> None:
    from mlir_matrix.base.text import harmless

    lines = harmless(str(error)).splitlines() or [type(error).__name__]
    for number, line in enumerate(lines):
        click.echo(f"matrix: {line}" if number == 0 else f"        {line}", err=True)


def _call(arguments: list[str] | None) -> int:
    try:
        result: Any = matrix.main(args=arguments, prog_name="matrix", standalone_mode=False)
    except MatrixError as error:
        _say(error)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except (KeyboardInterrupt, click.Abort) as error:
        if isinstance(error.__cause__, EOFError):
            # Not Ctrl-D, since nothing is asked: compiled Python of an installed program has been cut short.
            return _bug(error.__cause__)
        advice = getattr(error, "advice", "finished actions are cached: run the same command again to continue")
        click.echo(f"matrix: interrupted; {advice}", err=True)
        # Click raises Abort from the interrupt.
        stopped = error.__cause__ if isinstance(error, click.Abort) else error
        return 128 + (stopped.signum if isinstance(stopped, _Stopped) else signal.SIGINT)
    except (BrokenPipeError, SystemExit):
        # The reader of stdout has closed it (click raises SystemExit then). Python must not report that at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        # For example stdout on a full disk.
        place = f"{error.filename}: " if error.filename else ""
        _say(InfrastructureError(f"{place}{error.strerror or error}"))
        return 3
    except Exception as error:  # noqa: BLE001 - a bug, whatever its type
        return _bug(error)
    return result if isinstance(result, int) else 0


def _bug(error: BaseException) -> int:
    """Report an internal error; write its traceback to a file, for the bug report."""
    import traceback

    from mlir_matrix.base.paths import find_home
    from mlir_matrix.base.text import harmless

    text = "".join(traceback.format_exception(error))
    folder = find_home().state
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "crash.txt").write_text(text, encoding="utf-8")
        where = f"(traceback in {folder / 'crash.txt'}; please report it)"
    except OSError:
        where = text
    click.echo(harmless(f"matrix: internal error: {text.strip().splitlines()[-1]}\n        {where}"), err=True)
    return 3


def main(arguments: list[str] | None = None) -> None:
    """Run ``matrix`` and exit with its exit code."""
    gc.set_threshold(*COLLECTING)
    _listen()
    _end_with_parent()
    code = _call(arguments)
    for stream in (sys.stdout, sys.stderr):
        # None: it was closed at the start. Errors of earlier writes are reported already.
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.flush()
    # Nothing is left to clean up, and a regular exit takes a third of a warm run.
    os._exit(code)
