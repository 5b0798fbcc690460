"""Define the program ``matrix``: its verbs, its exit codes, and how it reports errors."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Mapping
from types import FrameType

import click

from mlir_matrix import __version__
from mlir_matrix.base.errors import InfrastructureError, MatrixError
from mlir_matrix.cli.verbs import LazyGroup, LazyVerb, VerbGroup

#: The verbs by name. ``matrix --help`` imports none of them.
VERBS: Mapping[str, LazyVerb | LazyGroup] = {
    "plan": LazyVerb("Show which tests would run, and why.", "run.commands:plan_command"),
    "run": LazyVerb("Run tests and compare each outcome with the expected one.", "run.commands:run_command"),
    "bisect": LazyVerb(
        "Find what changed the result of tests: a release, a commit, or pins.", "bisect.commands:bisect_command"
    ),
    "reduce": LazyVerb(
        "Reduce a failing test to the smallest program that fails alike.", "reduce.commands:reduce_command"
    ),
    "integrate": LazyVerb(
        "Move a pin to the furthest commit at which everything expected holds.",
        "integrate.commands:integrate_command",
    ),
    "fuzz": LazyVerb("Find miscompiles by programs that are composed at random.", "fuzz.commands:fuzz_command"),
    "cost": LazyGroup(
        "Count and measure what tests cost, and compare with another side.",
        {
            "of": LazyVerb("Count and measure what tests cost.", "cost.commands:cost_command"),
            "audit": LazyVerb("Measure how often comparisons of times err.", "cost.commands:audit_command"),
        },
        "matrix cost mlir/linalg-loops/x86_64-v3/matmul",
        "matrix cost 'mlir/linalg-vectorized/x86_64/*' --against linalg-loops",
        "matrix cost smoke --against llvm=22",
        about="Count and measure what tests cost, and compare with another side.\n\n"
        "matrix cost TESTS is matrix cost of TESTS. Its options: matrix cost of --help.",
        default="of",
    ),
    "expect": LazyVerb(
        "Propose which tests are expected to fail, by what fails now.", "expectations.commands:expect_command"
    ),
    "inputs": LazyVerb("Write the inputs of a workload as files.", "golden.commands:inputs_command"),
    "explain": LazyVerb(
        "Show everything that decides one test, with file and line.", "explain.commands:explain_command"
    ),
    "list": LazyVerb("List workloads, pipelines, steps, suites, components, …", "browse.commands:list_command"),
    "show": LazyVerb("Show one of them: its file, and where it is used.", "browse.commands:show_command"),
    "ir": LazyVerb("Print the IR of a test after a step.", "ir.commands:ir_command"),
    "step": LazyVerb("Run one step on a file.", "ir.commands:step_command"),
    "compare": LazyVerb("Compare the numbers in two files or folders.", "compare.commands:compare_command"),
    "golden": LazyGroup(
        "Manage expected outputs and numeric tolerances.",
        {
            "update": LazyVerb("Compute expected outputs again and compare.", "golden.commands:update_command"),
            "calibrate": LazyVerb("Propose tolerances from measured errors.", "golden.commands:calibrate_command"),
            "explain": LazyVerb("Show which bounds apply to a test, and why.", "golden.commands:explain_command"),
            "audit": LazyVerb(
                "Measure which planted miscompiles the tolerances catch.", "golden.commands:audit_command"
            ),
        },
        "matrix golden update",
        "matrix golden update --write mlp",
        "matrix golden explain jax/linalg-loops/x86_64/mlp",
        "matrix golden audit --seeds 50",
        about="Manage expected outputs and numeric tolerances.\n\n"
        "Expected outputs (goldens) are computed in float64 by the workloads' references, never by a compiler.",
    ),
    "init": LazyVerb("Start a catalog: a workload, a suite and a CI workflow.", "schema.commands:init_command"),
    "new": LazyVerb("Write a workload, step, pipeline, target, framework or suite.", "schema.commands:new_command"),
    "conflicts": LazyVerb("Find pairs of IR tests that cannot both pass.", "expectations.commands:conflicts_command"),
    "schema": LazyVerb("Print the JSON Schema of a file format.", "schema.commands:schema_command"),
    "toolchain": LazyGroup(
        "Lock, install, verify and upgrade compilers and frameworks.",
        {
            "lock": LazyVerb("Write lock files.", "toolchain.commands:lock_command"),
            "fetch": LazyVerb("Download and install locked packages.", "toolchain.commands:fetch_command"),
            "verify": LazyVerb("Check every byte of installed packages.", "toolchain.commands:verify_command"),
            "list": LazyVerb("List components and their releases.", "toolchain.commands:list_command"),
            "which": LazyVerb("Print the path of a tool.", "toolchain.commands:which_command"),
            "roll": LazyVerb("Test newer releases and propose those that pass.", "toolchain.commands:roll_command"),
            "push": LazyVerb("Add built commits to a store that others read.", "toolchain.store:push_command"),
            "pull": LazyVerb("Take built commits from a store.", "toolchain.store:pull_command"),
            "gc": LazyVerb("Remove packages that no lock file names.", "toolchain.commands:gc_command"),
        },
        "matrix toolchain list llvm",
        "matrix toolchain fetch llvm@19",
        "matrix toolchain which mlir-opt@19",
        about="Lock, install, verify and upgrade compilers and frameworks.\n\n"
        "All releases stand side by side in the cache folder. Nothing is installed on the machine.",
    ),
    "report": LazyGroup(
        "Report on many tests: what works, and what is best.",
        {
            "support": LazyVerb(
                "Show what works: workloads or operators by path and target.", "support.commands:support_command"
            ),
            "html": LazyVerb("Write pages that show what runs found.", "site.commands:html_command"),
            "best": LazyVerb("Show which pipelines are best for each workload, and why.", "cost.commands:best_command"),
        },
        "matrix report support 'pytorch/**'",
        "matrix report best 'mlir/linalg-*/x86_64/*'",
        about="Report on many tests.",
    ),
    "history": LazyGroup(
        "Ask what earlier runs found: flaky, slower, first bad.",
        {
            "show": LazyVerb(
                "Show runs, outcomes of tests, and tests that are flaky, slower or less accurate.",
                "history.commands:show_command",
            ),
            "diff": LazyVerb("Show new, fixed and changed failures between two runs.", "history.commands:diff_command"),
            "today": LazyVerb(
                "Show what is new since yesterday, by cause and machine.", "history.commands:today_command"
            ),
            "push": LazyVerb("Add the runs of this machine to a server.", "history.commands:push_command"),
            "import": LazyVerb("Add the runs of results documents.", "history.commands:import_command"),
            "export": LazyVerb(
                "Write durations of tests for shards and plans of machines.", "history.commands:export_command"
            ),
            "prune": LazyVerb("Replace old results by monthly summaries.", "history.commands:prune_command"),
        },
        "matrix history show 'jax/**'",
        about="Ask what earlier runs found.\n\n"
        "Each matrix run is recorded in the folder of the user's state, unless MATRIX_HISTORY=off. A question first adds "
        "new runs to a database: SQLite in the same folder, or PostgreSQL (--database URL, or MATRIX_HISTORY_URL).",
    ),
    "cache": LazyGroup(
        "Remove old results from the action cache.",
        {
            "gc": LazyVerb("Remove the least recently used results.", "results.commands:gc_command"),
        },
        "matrix cache gc --max-size 5G --dry-run",
        about="Remove old results from the action cache. They are made again when needed.",
    ),
    "container": LazyGroup(
        "Build and verify container images of environments.",
        {
            "build": LazyVerb("Build missing images.", "containers.commands:build_command"),
            "list": LazyVerb("List environments and their images.", "containers.commands:list_command"),
            "verify": LazyVerb("Compare images with their lock files.", "containers.commands:verify_command"),
        },
        "matrix container build mlir",
        "matrix container list",
        "matrix container verify mlir",
        about="Build and verify container images, one for each environment.\n\n"
        "Images are made from lock files: the same lock file gives the same image ID.",
    ),
    "machine": LazyGroup(
        "Describe build machines: what they have, and which tests they run.",
        {
            "probe": LazyVerb("Print a machine file of this machine.", "fleet.commands:probe_command"),
            "list": LazyVerb("List the machines of the catalogs.", "fleet.commands:list_command"),
            "check": LazyVerb("Compare this machine with its file.", "fleet.commands:check_command"),
            "init": LazyVerb("Set this machine up as a worker of Buildbot.", "fleet.commands:init_command"),
            "fleet": LazyVerb("Show what several machines run, and what none runs.", "fleet.commands:fleet_command"),
        },
        "matrix machine probe > matrix/machines/NAME.yaml",
        "matrix machine fleet",
    ),
    "merge": LazyVerb("Merge the results of all shards of a run.", "results.commands:merge_command"),
    "doctor": LazyVerb("Report what this machine has and what it lacks.", "toolchain.commands:doctor_command"),
}

#: Thresholds of the garbage collector. Plans and results have no cycles. Python's default of 700 costs a tenth of the time.
COLLECTING = (100_000, 20, 20)


def _print_cmake_folder(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from mlir_matrix.base.paths import cmake_folder

        click.echo(cmake_folder())
        context.exit()


@click.group(
    cls=VerbGroup,
    verbs=VERBS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: matrix plan, matrix run. Each verb has --help with examples.",
)
@click.version_option(__version__, prog_name="matrix")
@click.option(
    "--cmakedir",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_cmake_folder,
    help="Print the folder for CMake's MlirMatrix_DIR and exit.",
)
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
    """Receive SIGTERM when the parent process ends, even if it is killed. The parent asks for this by a variable."""
    if os.environ.pop("MATRIX_END_WITH_PARENT", ""):
        from mlir_matrix.actions.sandbox.isolation import die_with_parent

        die_with_parent(signal.SIGTERM)


def _say(error: Exception) -> None:
    from mlir_matrix.base.text import harmless

    lines = harmless(str(error)).splitlines() or [type(error).__name__]
    for number, line in enumerate(lines):
        click.echo(f"matrix: {line}" if number == 0 else f"        {line}", err=True)


def _call(arguments: list[str] | None) -> int:
    try:
        result: object = matrix.main(args=arguments, prog_name="matrix", standalone_mode=False)
    except MatrixError as error:
        _say(error)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except (KeyboardInterrupt, click.Abort) as error:
        if isinstance(error.__cause__, EOFError):
            # Not Ctrl-D: no verb reads stdin here. A file with compiled Python of the installed program is truncated.
            return _bug(error.__cause__)
        advice = getattr(error, "advice", "finished actions are cached: run the same command again to continue")
        click.echo(f"matrix: interrupted; {advice}", err=True)
        # Click raises Abort from the interrupt.
        stopped = error.__cause__ if isinstance(error, click.Abort) else error
        return 128 + (stopped.signum if isinstance(stopped, _Stopped) else signal.SIGINT)
    except (BrokenPipeError, SystemExit):
        # The reader of stdout has closed it, and click raises SystemExit. Python must not report that at exit.
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
    if os.environ.get("_MATRIX_COMPLETE") == "bash_complete":
        from mlir_matrix.cli.completion import complete_in_bash

        complete_in_bash()
    code = _call(arguments)
    for stream in (sys.stdout, sys.stderr):
        # It is None if it was closed when the program started. Errors of earlier writes are reported already.
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.flush()
    # Nothing is left to clean up, and a regular exit takes a third of the time of a warm run.
    os._exit(code)
