"""Run the commands of a test's RUN lines by the programs of one release of LLVM, and judge the test by how they end."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlir_matrix.actions.api import Action, MachineFailed, check_started, clean, command_of, write_verdict

#: As step run-lines names them.
TEST, TEMPORARY, LIBRARIES, ROOT = "test.mlir", "tmp", "lib", "@root@"
#: LLVM renamed its runner.
RENAMED = {"mlir-runner": "mlir-cpu-runner", "mlir-cpu-runner": "mlir-runner"}
#: What stages programs stand for; all others lower.
STAGES = {
    **dict.fromkeys(("mlir-runner", "mlir-cpu-runner", "lli"), "run"),
    **dict.fromkeys(("FileCheck", "count", "diff"), "judge"),
    "llc": "codegen",
}
FAILED = {"lower": "lower-failed", "codegen": "codegen-failed", "run": "run-failed", "judge": "mismatch"}
#: As MLIR's own tests have it.
FILECHECK = "-enable-var-scope --allow-unused-prefixes=false"
_ERROR = re.compile(r"(?:^|: )(?:fatal )?(?:error|LLVM ERROR|JIT session error): (.+)", re.MULTILINE)
_VERIFIES = re.compile(r"--?verify-diagnostics\b")
_LONGEST = 100_000


class Refused(Exception):
    """A command that no program of LLVM is, or that this tool does not take."""


@dataclass
class Ended:
    """How a command ended."""

    program: str
    words: Sequence[str]
    #: Negative: the number of a signal.
    code: int
    stderr: str = ""
    #: Why it is a failure although the program succeeded, or the other way round.
    why: str = ""

    @property
    def good(self) -> bool:
        return self.code == 0


@dataclass
class Call:
    """A command without what stands before the program: ``env``, ``not``, ``!``."""

    program: str
    arguments: list[str]
    negated: bool = False
    crash: bool = False
    variables: dict[str, str] = field(default_factory=dict)


def run(action: Action) -> None:
    """Run ``artifact``, write ``verdict``."""
    script = json.loads(Path(action.inputs["artifact"]).read_text(encoding="utf-8"))
    path = os.path.abspath(action.outputs["verdict"])
    with contextlib.chdir(lay_out(action)):
        judge(script, os.path.relpath(".", action.params.get("folder") or "."), path)


def judge(script: dict[str, Any], root: str, path: str) -> None:
    """Run a script in the current folder and write the verdict to ``path``; ``root`` leads to the catalog's folder."""
    if script["unsupported"]:
        return write_verdict(path, "unsupported", stage="import", reason=script["unsupported"])
    if refused := script["refused"] or refusal(script["lines"], root):
        return write_verdict(path, "import-failed", stage="import", reason=refused)
    for folder in (TEMPORARY, LIBRARIES):
        Path(folder).mkdir()
    Path(TEST).write_text(script["text"], encoding="utf-8")
    link_libraries()
    exported: dict[str, str] = {}
    for line in script["lines"]:
        failed = run_line(line["commands"], exported)
        if failed is not None and not script["fails"]:
            return report(path, failed, line)
        if failed is not None:
            return write_verdict(path, "pass")
    if script["fails"]:
        why = "XFAIL: the test is expected to fail, and all its RUN lines succeed"
        return write_verdict(path, "mismatch", reason=why)
    return write_verdict(path, "pass")


def lay_out(action: Action) -> str:
    """Return a folder like the test's own, with the files beside it."""
    top = Path("catalog")
    for name, path in action.params.get("beside", {}).items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).symlink_to(os.path.abspath(action.inputs[name]))
    folder = top / action.params.get("folder", "")
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def refusal(lines: Sequence[dict[str, Any]], root: str) -> str:
    """Return why a command cannot be run; empty where all can. Write where the catalog's folder is to their words."""
    programs = set[str]()
    for line in lines:
        line["text"] = line["text"].replace(ROOT, root)
        if absent := next((path for path in line["beside"] if not os.path.exists(path.replace(ROOT, root))), ""):
            name = absent.removeprefix("./").replace(f"{ROOT}/", "")
            why = f"no file {name} is beside the test; corpus.yaml can name it in 'beside'"
            return f"line {line['line']}: {why}: {line['text'][:200]}"
        for command in line["commands"]:
            command["words"] = [word.replace(ROOT, root) for word in command["words"]]
            try:
                programs.add(check(command))
            except Refused as error:
                return f"line {line['line']}: {error}: {line['text'][:200]}"
    return "" if programs - BUILTINS.keys() else "no RUN line runs a program of LLVM, so nothing is tested"


def report(path: str, failed: Ended, line: dict[str, Any]) -> None:
    """Write the verdict on a test whose line failed."""
    stage = STAGES.get(failed.program, "lower")
    text = clean(failed.stderr[:_LONGEST])
    said = f"RUN line {line['line']}: {line['text']}\n{text}"
    if failed.code < 0:
        names = {int(each): each.name for each in signal.Signals}
        name = names.get(-failed.code, f"signal {-failed.code}")
        reason = f"{name} in {failed.program} (RUN line {line['line']})"
        return write_verdict(path, "crashed", stage=stage, reason=reason, diagnostics=said, signal=name)
    found = _ERROR.search(text)
    lines = [each for each in text.splitlines() if each.strip()] or ["it prints nothing"]
    first = failed.why or re.sub(r"(?<=\S): (%\S+ = |\").*", "", found[1] if found else lines[0])[:300]
    if _VERIFIES.search(" ".join(failed.words)):
        stage = "judge"
    if stage == "judge" and failed.program == "FileCheck" and (place := re.search(rf"{re.escape(TEST)}:(\d+)", text)):
        first = f"{first} (line {place[1]})"
    reason = f"{failed.program} of RUN line {line['line']} fails with exit code {failed.code}: {first}"
    return write_verdict(path, FAILED[stage], stage=stage, reason=reason, diagnostics=said)


def run_line(commands: Sequence[dict[str, Any]], exported: dict[str, str]) -> Ended | None:
    """Run the pipelines of a line. Return the first command that failed it, or None."""
    failed: Ended | None = None
    for pipeline in pipelines(commands):
        before = pipeline[0]["after"]
        # As a shell does: a line succeeds as its last command does.
        if (before == "&&" and failed) or (before == "||" and not failed):
            continue
        failed = run_pipeline(pipeline, exported)
    return failed


def pipelines(commands: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    begin = 0
    for at in range(1, len(commands) + 1):
        if at == len(commands) or commands[at]["after"] != "|":
            yield list(commands[begin:at])
            begin = at


def run_pipeline(pipeline: Sequence[dict[str, Any]], exported: dict[str, str]) -> Ended | None:
    """Run commands one after the other, each with what the one before printed. Return the first that failed, or None."""
    given, failed = os.devnull, None
    for number, command in enumerate(pipeline):
        # Not below TEMPORARY, which a test may remove.
        printed = f".printed-{number % 2}"
        ended = run_command(command, given, printed, exported)
        failed = failed or (None if ended.good else ended)
        given = printed
    return failed


def run_command(command: dict[str, Any], given: str, printed: str, exported: dict[str, str]) -> Ended:
    """Run one command with its redirections; ``given`` and ``printed`` are files of the pipeline."""
    error, appended = "", {"printed": False, "error": False}
    together = False
    for operator, name in command["redirects"]:
        if operator == "<":
            given = inside(name)
        elif operator == "2>&1":
            together = True
        elif operator in ("2>", "2>>"):
            error, appended["error"] = inside(name), operator == "2>>"
        else:
            printed, together = inside(name), together or operator == "&>"
            appended["printed"] = operator == ">>"
    said = error or ".said"
    call = called(command["words"])
    words = [] if call.program in BUILTINS else program(call.program)
    try:
        with (
            open(given, "rb") as stdin,
            open(printed, "ab" if appended["printed"] else "wb") as stdout,
            open(said, "ab" if appended["error"] else "wb") as stderr,
        ):
            if call.program in BUILTINS:
                code = BUILTINS[call.program](call.arguments, stdin, stdout, exported)
            else:
                code = subprocess.run(
                    [*words, *call.arguments],
                    env=environment({**exported, **call.variables}),
                    stdin=stdin, stdout=stdout, stderr=stdout if together else stderr, check=False,
                ).returncode  # fmt: skip
        with open(printed if together else said, "rb") as output:
            text = output.read(_LONGEST).decode("utf-8", "replace")
        check_started(words, code, text)
    except OSError as problem:
        if problem.filename in (None, *words[:1]) or problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # the machine's
        return Ended(call.program, command["words"], 1, why=f"{str(problem.filename)[:100]}: {problem.strerror}")
    ended = Ended(call.program, command["words"], code, text)
    if call.negated:
        negate(ended, crash=call.crash)
    return ended


def negate(ended: Ended, *, crash: bool) -> None:
    """Apply ``not``: a failure is right, but a crash only where it is asked for."""
    if ended.code < 0:
        ended.code = 0 if crash else ended.code
    elif ended.code == 0 or crash:
        ended.why = f"the test expects it to {'crash' if crash else 'fail'}, and it ends with exit code {ended.code}"
        ended.code = 1
    else:
        ended.code = 0


def environment(variables: dict[str, str]) -> dict[str, str]:
    own = {"LC_ALL": "C", "HOME": os.getcwd(), "TMPDIR": os.getcwd(), "PATH": "", "FILECHECK_OPTS": FILECHECK}
    tunables = os.environ.get("GLIBC_TUNABLES")
    return {**own, **({"GLIBC_TUNABLES": tunables} if tunables else {}), **variables}


def called(words: Sequence[str]) -> Call:
    """Return a command without ``env``, ``not`` and ``!``. Raise Refused."""
    rest, call = list(words), Call("", [])
    while rest:
        word = rest.pop(0)
        if word in ("not", "!"):
            call.negated = not call.negated
            if rest[:1] == ["--crash"]:
                call.crash, rest = True, rest[1:]
        elif word == "env":
            while rest and (rest[0] == "-u" or "=" in rest[0]):
                if rest[0] == "-u":
                    rest = rest[2:]
                    continue
                name, _, value = rest.pop(0).partition("=")
                call.variables[name] = value
        else:
            call.program, call.arguments = word.removeprefix("./"), rest
            return call
    raise Refused("a program is missing")


def program(name: str) -> list[str]:
    """Return the words that start a program. Raise Refused where LLVM's release has none of this name."""
    for each in (name, RENAMED.get(name, "")):
        try:
            if each and "/" not in each:
                return command_of(each)
        except MachineFailed:
            continue
    raise Refused(f"'{name}' is no program of the pinned LLVM")


def check(command: dict[str, Any]) -> str:
    """Return the program of a command. Raise Refused for one that cannot be run."""
    call = called(command["words"])
    for _, name in command["redirects"]:
        inside(name)
    if call.program not in BUILTINS:
        program(call.program)
    elif call.program in ("rm", "mkdir", "cat"):
        for each in call.arguments:
            inside(each)
    return call.program


def inside(path: str) -> str:
    """Return a path of the test's own folder. Raise Refused for others."""
    if path != os.devnull and (path.startswith(("/", "~")) or ".." in Path(path).parts):
        raise Refused(f"'{path}' is not below the test's own folder")
    return path


def link_libraries() -> None:
    """Make LLVM's libraries for programs that mlir-runner runs, which are called by their version, available by their names."""
    words = command_of("mlir-opt")
    places = [Path(words[-1]).resolve().parent.parent / "lib"]
    if "--library-path" in words:
        places += map(Path, words[words.index("--library-path") + 1].split(":"))
    for place in places:
        for path in sorted(place.glob("libmlir_*.so*")):
            link = Path(LIBRARIES, f"{path.name.partition('.so')[0]}.so")
            if not link.is_symlink():
                link.symlink_to(path)


def _echo(arguments: list[str], _given: Any, printed: Any, _exported: dict[str, str]) -> int:
    ended = b"" if arguments[:1] == ["-n"] else b"\n"
    printed.write(" ".join(arguments[1:] if not ended else arguments).encode() + ended)
    return 0


def _cat(arguments: list[str], given: Any, printed: Any, _exported: dict[str, str]) -> int:
    if not arguments:
        shutil.copyfileobj(given, printed)
    for each in arguments:
        printed.write(Path(each).read_bytes())
    return 0


def _mkdir(arguments: list[str], *_: Any) -> int:
    for each in arguments:
        if each != "-p":
            Path(each).mkdir(parents=True, exist_ok=True)
    return 0


def _rm(arguments: list[str], *_: Any) -> int:
    forced = any(each.startswith("-") and "f" in each for each in arguments)
    for each in arguments:
        if not each.startswith("-"):
            shutil.rmtree(each) if Path(each).is_dir() else Path(each).unlink(missing_ok=forced)
    return 0


def _export(arguments: list[str], _given: Any, _printed: Any, exported: dict[str, str]) -> int:
    exported.update(each.partition("=")[::2] for each in arguments)
    return 0


def _nothing(*_: Any) -> int:
    return 0


#: What lit itself does instead of a program.
BUILTINS: dict[str, Callable[..., int]] = {
    "echo": _echo, "cat": _cat, "mkdir": _mkdir, "rm": _rm, "export": _export, ":": _nothing, "true": _nothing,
}  # fmt: skip
