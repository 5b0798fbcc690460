"""Run the actions of a job in a forked process: read each request, run the tool, write the outcome.

The outcome file has the outcome of the action: ``ok``, or a failure with its reason. Failures of the code under test are cached
like any other output, so their text must be equal in each run: addresses are removed, and paths are relative.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import importlib
import io
import json
import mmap
import os
import re
import resource
import signal
import stat
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from mlir_matrix.actions.contract import (
    Action,
    ActionCrashed,
    ActionFailed,
    MachineFailed,
    ToolError,
    is_verdict,
    last_words,
    own_files,
    programs,
    sites,
)
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.actions.sandbox import gpu_driver, isolation

REQUEST_FILE = "action.json"
OUTCOME_FILE = "outcome.json"
LOG_FILE = "log.txt"
#: Asks an action that exceeds its time limit: it prints its Python stack.
LATE = signal.SIGXCPU
#: Exit code of a child that could not write its outcome, because the machine failed.
EXIT_MACHINE = 74

#: The release of a user's own build with a sanitizer that has shadow memory.
_SHADOWED = re.compile(r"\.(?:asan|msan|tsan)\b")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,16}\b")
#: Control characters that a terminal would obey, and invalid text. Reports print text of code under test.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
#: MLIR's locations, which may hold folders of this machine.
_LOCATION = re.compile(r'\bloc\("/(?:[^"/]*/)*([^"/]*)(?=")')
#: What a signal means, beside its name.
_MEANS = {"SIGILL": ": an instruction that this CPU lacks, or a trap; is the code for another CPU?"}
_FRAME = re.compile(r'File "([^"]+)"')
#: What programs print when the disk is full; the second form is Zig's.
_DISK_FULL = re.compile(r"No space left on device|NoSpaceLeft")
#: What glibc prints if an extension module of a package needs a missing library.
_NO_LIBRARY = "cannot open shared object file"
#: Free bytes on the disk. Below the first, a lack of space may have caused a failure; below the second, truncated an output.
SCARCE, _NONE = 16 << 20, 64 << 10
_LONGEST = 200_000
_LONGEST_REASON = 2_000
#: Errors of the machine, not of an action's inputs.
MACHINE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENFILE})


def failure(stage: str, outcome: str, reason: str, diagnostics: str = "", **more: str) -> dict[str, str]:
    """Return an outcome other than ``ok``, without text that differs between runs.

    ``cache``: ``no`` for a failure that the code under test may not have caused; ``retry`` if the action is to run again, too.
    """
    text = _clean(diagnostics, _LONGEST, "\n… (cut)")
    return {
        "outcome": outcome,
        "stage": stage,
        "reason": _clean(" ".join(reason.splitlines()), _LONGEST_REASON, "…"),
        "diagnostics": text,
        **more,
    }


def _clean(text: str, longest: int, cut: str) -> str:
    shown = _LOCATION.sub(r'loc("\1', _ADDRESS.sub("0x…", _UNPRINTABLE.sub("\ufffd", text[:longest])))
    return shown + (cut if len(text) > longest else "")


def failed_outcome(stage: str) -> str:
    """Return the outcome of a failed action by its stage. A judge that raises is a mismatch."""
    return "mismatch" if stage == "judge" else f"{stage}-failed"


def crash(stage: str, signal_name: str, diagnostics: str) -> dict[str, str]:
    said = last_words(diagnostics)
    means = f": {said}" if said else _MEANS.get(signal_name, "")
    if signal_name == "SIGABRT" and stage == "run" and not said and diagnostics.strip():
        # A kernel prints the message of an assertion (cf.assert), and then aborts.
        means = f": {diagnostics.strip().splitlines()[-1][:120]}"
    reason = f"{signal_name} while at stage {stage}{means}"
    return failure(stage, Outcome.CRASHED, reason, diagnostics, signal=signal_name)


def because(outcome: Mapping[str, str], limit: str) -> dict[str, str]:
    """Add the limit that an action exceeded to its failure, which is not cached: another executor may have another limit."""
    stage, signal = outcome["stage"], outcome.get("signal", "")
    if signal == "SIGKILL":
        # The limit caused this signal.
        return failure(stage, failed_outcome(stage), limit, outcome["diagnostics"], cache="no")
    more = {"signal": signal} if signal else {}
    return failure(
        stage, outcome["outcome"], f"{limit}; {outcome['reason']}", outcome["diagnostics"], cache="no", **more
    )


def write_outcome(folder: str, outcome: Mapping[str, object]) -> None:
    """Write the outcome file in one step, so that nobody reads a part of it.

    Replace whatever the action left at its path.
    """
    path = os.path.join(folder, OUTCOME_FILE)
    temporary = path + ".tmp"
    for name in (path, temporary):
        _make_way(name)
    with open(temporary, "x", encoding="utf-8") as file:
        json.dump(outcome, file, sort_keys=True, ensure_ascii=False)
    os.replace(temporary, path)


def _make_way(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError:
        os.rename(path, f"{path}.{os.getpid()}.odd")


def read_log(folder: str, limit: int = 20_000) -> str:
    try:
        with open_plain(os.path.join(folder, LOG_FILE)) as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - limit))
            return file.read(limit).decode("utf-8", errors="replace")
    except OSError:
        return ""


def open_plain(path: str) -> io.BufferedReader:
    """Open a file that an action left. Raise OSError for a link, a pipe or a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a plain file", path)
    return os.fdopen(descriptor, "rb")


def run_forked(
    request: Mapping[str, Any],
    folder: str,
    *,
    memory_mb: int,
    space: isolation.Space | None,
    actions: int = 1,
    line: int = -1,
) -> NoReturn:
    """Run actions in a forked child, one after the other until one fails, and exit.

    ``space``: the namespaces of the child, or None. ``line``: a socket, on which the child reports each success but the
    last, and waits until its folder has the next request.
    """
    code = 70
    try:
        os.setsid()
        if space is None:
            isolation.die_with_parent()
            isolation.shield(False)
        try:
            # The shadow memory of a sanitizer takes terabytes of addresses, and the driver of a GPU maps its memory.
            vast = any(_SHADOWED.search(release) for release, _ in programs.values())
            vast = vast or gpu_driver.has_gpu(request["params"].get("devices", ()))
            isolation.limit_resources(memory_mb=memory_mb, mapped=not vast)
            if space is not None:
                folder = space.folder
                space.confine()
            os.chdir(folder)
            _redirect(line)
            isolation.drop_privileges()
            _move_home(os.getcwd())
            signal.signal(LATE, _abort_programs)
            faulthandler.register(LATE, file=2, chain=True)
            # A worker with packages of an untrusted catalog cannot import them. The action can, because it is isolated by now.
            sys.path.extend(site for site in sites if site not in sys.path)
        except OSError as error:
            outcome = failure(str(request["stage"]), Outcome.INFRA_ERROR, f"the machine failed: {error.strerror}")
        else:
            outcome = _perform_all(request, folder, actions, line)
        _flush()
        code = _leave(folder, outcome)
    finally:
        # No interpreter shutdown: the frameworks' exit handlers would run in a forked process, which they do not expect.
        os._exit(code)


def _perform_all(request: Mapping[str, Any], folder: str, actions: int, line: int) -> dict[str, str]:
    """Run actions in the same folder until one fails. Return the outcome of the last one that ran."""
    while (outcome := perform(request))["outcome"] == "ok" and actions > 1:
        actions -= 1
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        _flush()
        write_outcome(folder, outcome)
        # The caller uses the folder now, so this process must close all files in it.
        _silence(line)
        times = [sum(each.ru_utime for each in used), sum(each.ru_stime for each in used)]
        os.write(line, json.dumps([*times, max(each.ru_maxrss for each in used)]).encode())
        if not os.read(line, 1):
            os._exit(0)
        _redirect(line)
        with open(REQUEST_FILE, encoding="utf-8") as text:
            request = json.load(text)
    return outcome


def _abort_programs(_signal: int, _frame: object) -> None:
    """Abort the programs that this action waits for. LLVM's programs then print the running pass, which the tool reports."""
    for pid in isolation.children():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGABRT)


def _flush() -> None:
    # The action may have closed or replaced these streams.
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()


def _move_home(folder: str) -> None:
    """Make a folder the home. Forget paths that preloaded modules derived from the worker's home, which is invisible here."""
    before = os.environ.get("TMPDIR", "")
    for name, value in list(os.environ.items()):
        if before and before in value:
            del os.environ[name]
    if tempfile := sys.modules.get("tempfile"):
        setattr(tempfile, "tempdir", None)  # noqa: B010 - typed as a module of any name
    os.environ["HOME"] = os.environ["TMPDIR"] = folder


def _leave(folder: str, outcome: Mapping[str, str]) -> int:
    # The action may have opened as many files as its limit allows.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    try:
        write_outcome(folder, outcome)
    except OSError as error:
        return EXIT_MACHINE if error.errno in MACHINE_ERRORS else 70
    return 0


def _redirect(line: int) -> None:
    """Send all output of the action to its log, and close the worker's descriptors."""
    log = os.open(LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    _silence(line, log)


def _silence(line: int, log: int | None = None) -> None:
    """Close all descriptors except ``line``. The action then has no input, and its output goes to ``log``, or nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    for number in (1, 2):
        os.dup2(null if log is None else log, number)
    os.closerange(3, max(line, 3))
    os.closerange(max(line + 1, 3), os.sysconf("SC_OPEN_MAX"))


def tool_named(name: str) -> Any:
    """Import and return one of our tools, a module with the function ``run``."""
    return importlib.import_module(f"mlir_matrix.actions.tools.{name}")


def perform(request: Mapping[str, Any]) -> dict[str, str]:
    """Run the tool that the request names, in the current folder, and return the outcome."""
    stage, name = str(request["stage"]), str(request["tool"])
    spare: list[mmap.mmap] = []
    action = Action(params=request["params"], inputs=request["inputs"], outputs=request["outputs"])
    for path in action.outputs.values():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    try:
        # A reserve that is freed when memory runs out, so that the failure can be reported. No page of it is ever touched.
        spare.append(mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        tool_named(name).run(action)
    except BaseException as error:  # noqa: BLE001 - any exception of a source is its outcome
        spare.clear()
        if isinstance(error, OSError) and not is_verdict(error) and _is_damaged(error, action):
            reason = f"{_first_line(error)} (the action damaged its folder or used up its file descriptors)"
            return failure(stage, failed_outcome(stage), reason, _trace(error), cache="retry")
        return _failed(stage, error, _shown(request))
    missing = [output for output, path in action.outputs.items() if not os.path.isfile(path)]
    if missing:
        reason = f"{_shown(request)} did not write {', '.join(missing)}"
        return failure(stage, Outcome.INFRA_ERROR, reason)
    if _free_bytes() < _NONE:
        return failure(stage, Outcome.INFRA_ERROR, "the machine failed: the disk is full")
    return {"outcome": "ok", "stage": stage}


def _shown(request: Mapping[str, Any]) -> str:
    """Return the name of a request's tool for messages. A mistake in a tool of this program is an internal error."""
    file = request["params"].get("tool")
    return f"the tool {file}" if file else f"internal error: the tool {request['tool']}"


def _own_line(error: BaseException) -> int | None:
    """Return the innermost line of a catalog's tool in a traceback, or the line with its syntax error."""
    if isinstance(error.__cause__, SyntaxError) and error.__cause__.filename in own_files:
        return error.__cause__.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename in own_files), None)


def _is_damaged(error: OSError, action: Action[Mapping[str, object]]) -> bool:
    """Return whether the action damaged its own folder or used up its descriptors."""
    places = dict.fromkeys(action.inputs.values(), os.R_OK)
    places |= {os.path.dirname(path): os.W_OK for path in action.outputs.values()}
    return error.errno == errno.EMFILE or not all(
        os.access(path, mode, effective_ids=True) for path, mode in places.items()
    )


def wants_room(folder: str, text: str) -> bool:
    """Return whether an action that left ``text`` may have failed because the disk is full."""
    return _free_bytes(folder) < SCARCE or _DISK_FULL.search(text) is not None


def _free_bytes(folder: str = ".") -> int:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return SCARCE
    return disk.f_bavail * disk.f_frsize


def _failed(stage: str, error: BaseException, tool: str) -> dict[str, str]:
    """Return the outcome for an exception. An exception of code that is not under test is an internal error."""
    outcome = failed_outcome(stage)
    match error:
        case ActionFailed() if wants_room(".", error.diagnostics):
            # Some programs do not print why they failed.
            reason = f"the machine failed: the disk is full, or nearly; {error.reason}"
            return failure(stage, Outcome.INFRA_ERROR, reason, error.diagnostics)
        case ActionFailed():
            return failure(stage, outcome, error.reason, error.diagnostics)
        case ActionCrashed():
            return crash(stage, error.signal, error.diagnostics)
        case MachineFailed():
            return failure(stage, Outcome.INFRA_ERROR, str(error))
        case OSError() if error.errno in MACHINE_ERRORS:
            return failure(stage, Outcome.INFRA_ERROR, f"the machine failed: {error.strerror}")
        case MemoryError():
            # Traceback frames keep the large objects alive.
            traceback.clear_frames(error.__traceback__)
            outcome = outcome if is_verdict(error) else Outcome.INFRA_ERROR
            return failure(stage, outcome, "out of memory within the action's limit", _trace(error))
        case _ if not is_verdict(error):
            reason = f"{tool} {error}" if isinstance(error, ToolError) else f"{tool} raised {_first_line(error)}"
            reason += f" (line {line})" if (line := _own_line(error)) else ""
            return failure(stage, Outcome.INFRA_ERROR, reason, _trace(error))
        case ImportError() if _NO_LIBRARY in (reason := _first_line(error)) and _is_of_package(error.path):
            return failure(stage, Outcome.INFRA_ERROR, f"a library of the environment is missing: {reason}")
        case SystemExit():
            return failure(
                stage, outcome, f"the source ended its process: SystemExit({error.code!r:.100})", _trace(error)
            )
    return failure(stage, outcome, _first_line(error), _trace(error))


def _is_of_package(path: str | None) -> bool:
    return path is not None and path.startswith(tuple(f"{site}/" for site in sites))


def _first_line(error: BaseException) -> str:
    name = type(error).__name__
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # noqa: BLE001 - its class is code under test, too
        return f"{name} (its text cannot be read)"
    return f"{name}: {lines[0][:300]}" if lines else name


def _trace(error: BaseException) -> str:
    """Return the traceback as text that is equal on all machines."""
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - its class is code under test, too
        text = "".join(traceback.format_tb(error.__traceback__))
    return without_folders(text)


def without_folders(text: str) -> str:
    """Return tracebacks without folders of this machine."""

    def shorten(match: re.Match[str]) -> str:
        parts = match.group(1).replace("\\", "/").split("/")
        for anchor in ("site-packages", "lib", "mlir_matrix"):
            if anchor in parts:
                return f'File "{"/".join(parts[parts.index(anchor) :])}"'
        return f'File "{"/".join(parts[-2:])}"' if match.group(1).startswith("/") else match.group(0)

    return _FRAME.sub(shorten, text)
