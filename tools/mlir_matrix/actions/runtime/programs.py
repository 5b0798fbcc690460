"""Programs of the environment's prefixes (``mlir-opt``, ``llc``, ``qemu-aarch64``), run by their own loader and libraries.

A prefix is a folder with everything that its programs need. Its ``.matrix/prefix.json`` says where they are. A program may also
belong to the machine. Only the command line of the worker has these paths; requests and results of actions do not.
"""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, NoReturn

from mlir_matrix.actions.contract import (
    ActionCrashed,
    ActionFailed,
    MachineFailed,
    add_metrics,
    prefixes,
    programs,
    read_metrics,
    signal_name,
    sites,
)
from mlir_matrix.actions.sandbox import isolation, root

#: The name of the interpreter that runs this.
PYTHON = "python3"
#: Folders in the environment's wheels that have programs, from component files.
folders: list[str] = []
_ERROR = re.compile(r"(?:^|: )(?:error|LLVM ERROR): (.+)", re.MULTILINE)
#: Lines that a crashing program prints and that differ: addresses between runs, folders between machines.
_NOISE = re.compile(
    r"^(?: *#\d+ 0x|\d+ +\S+ +0x|PLEASE submit|Stack dump|0\.\s|\d+\.\s+Program arguments|Segmentation fault)"
)
#: A frame of LLVM's stack dump with a symbol. Frames of signal handlers, of ``abort`` and of libc's start are left out. The
#: second form is that of programs without debug information: ``4  libMLIR.so 0x… mlir::f(int) + 14``.
_SIGNALS = r"(?!llvm::sys::(?:Print|Run)|(?:gsignal|raise|abort|__\w+)\b)"
_FRAME = re.compile(rf"^ *#\d+ 0x\w+ (?:in |(?!in ))(?!\(?\.{{0,2}}/){_SIGNALS}(.+?) \(?\.{{0,2}}/.*")
_BARE_FRAME = re.compile(rf"^\d+ +\S+ +0x\w+ {_SIGNALS}(.+) \+ \d+$")
#: How a sanitizer's report begins, with the number of the process; UBSan's has no name.
_PROCESS = re.compile(r"^==\d+==(?=(?:ERROR|WARNING): \w+Sanitizer: )", re.MULTILINE)
_REPORT = re.compile(r"^==(?:ERROR|WARNING): (\w+Sanitizer): |^\S+:\d+:\d+: runtime error: ", re.MULTILINE)
#: The release of a user's own build with a sanitizer.
_SANITIZED = re.compile(r"\.(?:asan|msan|tsan|ubsan)\b")
#: Exit codes by which a shell says that a signal ended its program: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
_BY_SIGNAL = {128 + number: -number for number in (4, 6, 7, 8, 11)}
_TEXT_LIMIT = 200_000
#: Dialect conversion has no pattern for an operation, or each of its patterns refuses it.
_ILLEGAL = re.compile(r"failed to legalize operation ('[^']+')(?: that was explicitly marked illegal)?")
NO_PATTERN = "no pattern converts {}"
#: The operation in generic form, which follows a message.
_OPERATION = re.compile(r"(?<=\S): (?:%\S+ = |\").*")
_MAJOR = re.compile(r"\d+")
#: What glibc prints if it cannot load a program (elf/rtld.c, elf/dl-version.c), and the exit codes that follow.
_NOT_LOADED = re.compile(
    r"^\S+: (?:error while loading shared libraries: .+|symbol lookup error: .+|\S+: version `.+' not found \(.+\))$",
    re.MULTILINE,
)
_NOT_LOADED_CODES = (1, 127)
#: What a shell and ``env`` print of a program that they do not find.
_NOT_FOUND = re.compile(
    r"^\S+: (?:(?:line )?\d+: )?(?:exec: )?['‘]?(\S+?)['’]?: (?:command )?(?:not found|No such file or directory)$",
    re.M,
)
_NOT_FOUND_CODE = 127
#: Errors for a file that this machine cannot run.
_NO_PROGRAM = (errno.ENOENT, errno.EACCES, errno.ENOEXEC)


@cache
def _described(prefix: str) -> dict[str, Any]:
    with open(f"{prefix}/.matrix/prefix.json", encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def needed_of_machine(prefix: str) -> Iterator[str]:
    """Yield the files of the machine that a prefix needs if the machine's compiler built it. The build lists them."""
    if os.path.isdir(prefix):
        yield from _described(prefix).get("needed", ())


def release(program: str) -> str:
    """Return the release of the component of a program, such as ``19.1.7``."""
    prefix = _prefix_of(program)
    return programs[program][0] if prefix is None else prefixes[prefix]


def before(program: str, major: int) -> bool:
    """Return whether a program is older than a major release."""
    return is_before(release(program), major)


def is_before(release: str, major: int) -> bool:
    """Return whether a release is older than a major release. One without a number, such as a branch, is the newest."""
    found = _MAJOR.match(release)
    return found is not None and int(found[0]) < major


def has(program: str) -> bool:
    return program in programs or any(program in _described(prefix)["programs"] for prefix in prefixes)


def _prefix_of(program: str) -> str | None:
    """Return the prefix that has a program; None for a program of the machine."""
    for prefix in prefixes:
        if program in _described(prefix)["programs"]:
            return prefix
    if program not in programs:
        raise MachineFailed(f"the environment has no program {program}")
    return None


def command(program: str, *, libraries: bool = False) -> list[str]:
    """Return the words that start a program. Raise MachineFailed if the environment has no such program.

    ``libraries``: a program of a wheel, or the interpreter of this process, uses the loader and the libraries of the environment's
    first prefix.
    """
    path = sys.executable if libraries and program == PYTHON else _of_wheels(program)
    if path:
        if not libraries:
            return [path]
        lender = next(iter(prefixes))
        return by_loader(lender, _described(lender)["loader"], _described(lender)["libraries"], path, program)
    prefix = _prefix_of(program)
    if prefix is None:
        return [programs[program][1]]
    described = _described(prefix)
    found = described["programs"][program]
    if not found["loaded"]:
        return [f"{prefix}/{found['path']}"]
    return by_loader(prefix, described["loader"], described["libraries"], found["path"], program)


def library(name: str) -> str:
    """Return the path of a shared library of the environment's prefixes. Raise MachineFailed if none has it."""
    places = (f"{prefix}/{folder}/{name}" for prefix in prefixes for folder in _described(prefix)["libraries"])
    found = next(filter(os.path.isfile, places), None)
    if found is None:
        raise MachineFailed(f"the environment has no library {name}")
    return found


def _of_wheels(program: str) -> str | None:
    """Return the path of a program in the environment's wheels."""
    places = (f"{site}/{folder}/{program}" for folder in folders for site in sites)
    return next((place for place in places if os.access(place, os.X_OK) and os.path.isfile(place)), None)


def by_loader(root: str, loader: str, libraries: Iterable[str], path: str, name: str) -> list[str]:
    """Return the words that run a program of a prefix by the prefix's own loader.

    ``loader``, ``libraries`` and a relative ``path`` are below ``root``; ``name`` becomes the program's argument 0.
    """
    places = ":".join(f"{root}/{folder}" for folder in libraries)
    # Without the host's library cache: a library that the prefix lacks must not come from the host.
    options = ["--inhibit-cache", "--argv0", name, "--library-path", places]
    return [f"{root}/{loader}", *options, os.path.join(root, path)]


def call(
    program: str, arguments: Sequence[str], *, output: str, failure: str, recorded: bool | Sequence[str] = True
) -> str:
    """Run a program with ``-o output``. Return and raise as ``execute`` does; raise ActionFailed if it writes no output."""
    shown = recorded if isinstance(recorded, bool) else [*recorded, "-o", output]
    said = execute(program, [*arguments, "-o", output], failure=failure, recorded=shown)
    if not os.path.isfile(output):
        raise ActionFailed(f"{failure}: {program} exits with 0 and writes no output", diagnostics=said)
    return said


def execute(
    program: str,
    arguments: Sequence[str],
    *,
    failure: str = "",
    libraries: bool = False,
    variables: Mapping[str, str] = MappingProxyType({}),
    recorded: bool | Sequence[str] = True,
) -> str:
    """Run a program of the environment in the current folder. Return its output, without text that differs between machines.

    ``libraries`` is that of ``command``. ``variables`` are more environment variables. Reports show the command line if
    ``recorded``, or these arguments instead of its own. Raise ActionFailed with the program's first error, after the words
    ``failure``. Raise ActionCrashed if a signal ended it, and MachineFailed if the environment has no such program.
    """
    begin = time.perf_counter()
    words = [*command(program, libraries=libraries), *arguments]
    try:
        done = subprocess.run(
            words,
            # Compilers fold constants with libm, whose results must not depend on this CPU.
            env={
                "LC_ALL": "C", "HOME": os.getcwd(), "TMPDIR": os.getcwd(), "PATH": "",
                "GLIBC_TUNABLES": isolation.CLEAN_ENVIRONMENT["GLIBC_TUNABLES"], **of_script(words[0]), **of_sanitizers(program),
                **variables,
            },
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
            # With a function here, Python copies this process first, which takes longer than most programs need to start.
            preexec_fn=None if isolation.ends_together else isolation.die_with_parent,
        )  # fmt: skip
    except OSError as error:
        if error.errno not in _NO_PROGRAM:
            raise
        raise MachineFailed(f"{program} does not start: {error.strerror}") from error
    shown = arguments if isinstance(recorded, bool) else recorded
    _record(time.perf_counter() - begin, [program, *shown] if recorded else None)
    # stderr first: without a line that begins with «error», the reason quotes the first line.
    said = bounded(done.stderr) + bounded(done.stdout)
    if done.returncode != 0:
        check_started(command(program, libraries=libraries), done.returncode, said)
        check_found(program, words[0], done.returncode, said)
        code = _BY_SIGNAL.get(done.returncode, done.returncode) if root.is_script(words[0]) else done.returncode
        refuse(code, said, failure=failure or f"{program} fails with exit code {done.returncode}")
    return clean(said)


def _record(seconds: float, line: Sequence[str] | None) -> None:
    """Add the time of a program, and its command line for reports: the program's name, paths relative to the action's folder."""
    known = read_metrics()
    lines = [*known.get("commands", ()), *([line] if line else [])]
    add_metrics({"programs_s": round(known.get("programs_s", 0.0) + seconds, 6), "commands": lines})


def variables_of(program: str) -> dict[str, str]:
    """Return the environment variables that a program needs, beside those of all programs."""
    return {**of_script(command(program)[0]), **of_sanitizers(program)}


def of_script(path: str) -> dict[str, str]:
    """Return the environment variables by which a script finds utilities, Python and the environment's packages."""
    if not root.is_script(path):
        return {}
    return {"PATH": root.SEARCH, "PYTHONPATH": ":".join(sites), "PYTHONHASHSEED": "0"}


def of_sanitizers(program: str) -> dict[str, str]:
    """Return the environment variables with which sanitizers in a user's own build end the program and name functions."""
    if program not in programs or not _SANITIZED.search(programs[program][0]):
        return {}
    symbolizer = programs.get("llvm-symbolizer", ("", ""))[1]
    by = f":external_symbolizer_path={symbolizer}" if symbolizer else ""
    # The leak checker traces its own process, which actions may not. Shadow memory breaks any other limit of memory.
    common = f"halt_on_error=1:print_stacktrace=1:detect_leaks=0:hard_rss_limit_mb={max(isolation.memory_limits, default=0)}{by}"
    return dict.fromkeys(("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "MSAN_OPTIONS"), common)


def check_found(program: str, path: str, code: int, said: str) -> None:
    """Raise MachineFailed if a script ends because it does not find a program."""
    absent = _NOT_FOUND.search(said) if code == _NOT_FOUND_CODE and root.is_script(path) else None
    if absent:
        has = "scripts have sh, python3, coreutils, grep, sed, awk, find and diff, and no other program of the machine"
        raise MachineFailed(f"{program} does not find {absent[1]}: {has}")


def check_started(words: Sequence[str], code: int, said: str) -> None:
    """Raise MachineFailed if the loader refuses a program or a library: then no source is to blame.

    A program may also print such words from its source. So run the loader again, on a command line without a source.
    """
    if not words or not not_loaded(code, said):
        return
    done = subprocess.run(
        [*words, "--version"],
        # With LD_BIND_NOW, the loader looks up all symbols at the start.
        env={"LC_ALL": "C", "PATH": "", "LD_BIND_NOW": "1"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    if why := not_loaded(done.returncode, done.stdout.decode("utf-8", "replace")):
        raise MachineFailed(f"a program does not start: {why}")


def not_loaded(code: int, said: str) -> str:
    """Return the loader's message if exit code and output look as if the program did not start, else an empty string."""
    found = _NOT_LOADED.search(said) if code in _NOT_LOADED_CODES else None
    return found[0] if found else ""


def refuse(code: int, said: str, *, failure: str) -> NoReturn:
    """Raise the error for a program that failed; ``said`` is its whole output."""
    text = clean(said)
    if code < 0:
        raise ActionCrashed(signal_name(-code), diagnostics=text)
    if reported := sanitizer_of(text):
        raise ActionCrashed(reported, diagnostics=text)
    found = _ERROR.search(text)
    lines = [line for line in text.splitlines() if line.strip()] or ["it prints nothing"]
    # Python prints the error last.
    first = found[1] if found else lines[-1 if lines[0].startswith("Traceback ") else 0]
    raise ActionFailed(f"{failure}: {shortened(first)}", diagnostics=text)


def sanitizer_of(text: str) -> str:
    """Return the sanitizer whose report is in the output of a program, or an empty string."""
    found = _REPORT.search(text)
    return (found[1] or "UndefinedBehaviorSanitizer") if found else ""


def bounded(printed: bytes) -> str:
    """Return the output of a program; if it is long, the beginning and the end, which has errors after many warnings."""
    if len(printed) > _TEXT_LIMIT:
        half = _TEXT_LIMIT // 4
        left_out = len(printed) - 2 * half
        printed = printed[:half] + b"\n[%d bytes cut]\n" % left_out + printed[-half:]
    return printed.decode("utf-8", "replace")


def shortened(message: str) -> str:
    """Return one line for the table, without the operation that follows the message."""
    line = _OPERATION.sub("", next(iter(message.strip().splitlines()), ""))
    return _ILLEGAL.sub(NO_PATTERN.format(r"\1"), line)[:300]


def clean(text: str) -> str:
    """Return the output of a program without parts that differ between machines, because diagnostics are cached."""
    lines = [_BARE_FRAME.sub(r"#  \1", _FRAME.sub(r"#  \1", line)) for line in text.splitlines()]
    lines = [line for line in lines if not _NOISE.match(line)]
    text = _PROCESS.sub("==", "\n".join(lines))
    for place in (*prefixes, *(sites if folders else ())):
        text = text.replace(f"{place}/", "")
    text = text.replace(f"{os.getcwd()}/", "")
    if len(text) > _TEXT_LIMIT:
        text = f"{text[:_TEXT_LIMIT]}\n[cut]"
    return text + "\n" if text else ""
