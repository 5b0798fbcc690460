"""Have LLVM's lit run the RUN lines of a test by the programs of one release of LLVM, and judge the test by what it says."""

from __future__ import annotations

import errno
import os
import re
import shlex
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lit.LitConfig import LitConfig
from lit.llvm.subst import ToolSubst
from lit.Test import FAIL, UNRESOLVED, UNSUPPORTED, XFAIL, XPASS, Result, Test, TestSuite
from lit.TestingConfig import TestingConfig
from lit.TestRunner import (
    _runShTest,
    applySubstitutions,
    getDefaultSubstitutions,
    getTempPaths,
    parseIntegratedTestScript,
)

from mlir_matrix.actions.api import (
    Action,
    MachineFailed,
    check_started,
    clean,
    command_of,
    last_words,
    sanitizer_of,
    variables_of,
    write_verdict,
)

#: The test in its folder. Of the action's folder: a folder like the catalog's, what the test writes, LLVM's libraries.
TEST, CATALOG, OUTPUT, LIBRARIES = "test.mlir", "catalog", "output", "lib"
#: Libraries for programs that mlir-runner runs.
RUNTIMES = (
    "mlir_runner_utils", "mlir_c_runner_utils", "mlir_async_runtime", "mlir_float16_utils", "mlir_apfloat_wrappers",
    "mlir_arm_runner_utils",
)  # fmt: skip
#: LLVM renamed its runner.
RENAMED = {"mlir-runner": "mlir-cpu-runner", "mlir-cpu-runner": "mlir-runner"}
#: What stages programs stand for; all others lower.
STAGES = {
    **dict.fromkeys(("mlir-runner", "mlir-cpu-runner", "lli"), "run"),
    **dict.fromkeys(("FileCheck", "count", "diff", "not"), "judge"),
    "llc": "codegen",
}
FAILED = {"lower": "lower-failed", "codegen": "codegen-failed", "run": "run-failed", "judge": "mismatch"}
#: As MLIR's own tests have it.
FILECHECK = "-enable-var-scope --allow-unused-prefixes=false"
#: How deep substitutions may refer to each other: a value that has itself twice doubles each time.
DEEPEST = 10
#: How many characters of what a command says are kept.
LONGEST = 100_000
#: How lines of lit's log begin: a RUN line, a command that ran, a command that failed, what a command said.
RUN_LINE, RAN, LOST, SAID = (
    "# RUN: at line ", "# executed command: ", "# error: command failed with exit status: ", "# | ",
)  # fmt: skip
#: What lit gives a command that it does not take or cannot start, and what it says of the latter.
NOT_TAKEN, NOT_STARTED = 127, "Could not create process"
# Expressions are compiled where they are needed: few tests fail.
_ERROR = r"(?m)(?:^|: )(?:fatal )?(?:error|LLVM ERROR|JIT session error): (.+)"
_OPERATION = r"(?<=\S): (?:%\S+ = |\").*"
_VERIFIES = r"--?verify-diagnostics\b"
_UNKNOWN = r"%(?:\{[^}\s]*\}|[a-zA-Z]\w*)"
_QUOTED = r"(?m)^ *\d+: "
_WORD = r"[\w+][\w+.-]*"


class Failures:
    """Collects the commands that failed, in lit's hook for updating tests."""

    def __init__(self) -> None:
        #: Of the last attempt. Each has ``command``, ``exitCode`` (negative: a signal) and ``stderr``.
        self.results: list[Any] = []
        self._attempt: object = None

    def __call__(self, result: Any, _test: Test, attempt: object) -> None:
        if attempt is not self._attempt:
            self._attempt, self.results = attempt, []
        self.results.append(result)


def run(action: Action) -> None:
    """Run ``artifact``, write ``verdict``."""
    catalog = os.path.abspath(CATALOG)
    folder = os.path.abspath(os.path.join(CATALOG, action.params.get("folder", "")))
    lay_out(action, catalog, folder)
    values = action.params["parameters"]
    lines = Path(folder, TEST).read_text(encoding="utf-8", errors="replace").splitlines()
    directives = " ".join(line for line in lines if "RUN:" in line or "DEFINE:" in line)
    known = mentioned(substitutions(catalog, values["substitutions"]).items(), directives)
    if any(os.path.abspath(LIBRARIES) in value for _, value in known):
        link_libraries()
    text = " ".join([directives, *(value for _, value in known)])
    tools = programs(text)
    own = [(rf"%{re.escape(name)}\b", value) for name, value in known]
    own += [(pattern(name), shlex.join(words)) for name, words in tools.items()]
    failures = Failures()
    # Only lit's internal shell is used.
    settings = LitConfig(
        "lit", path=[], diagnostic_level="error", useValgrind=False, valgrindLeakCheck=False, valgrindArgs=[],
        noExecute=False, debug=False, isWindows=False, order="lexical", params={"output_limit": LONGEST},
        update_tests=True,
    )  # fmt: skip
    settings.test_updaters = [failures]
    config = TestingConfig.fromdefaults(settings)
    config.environment = environment()
    config.available_features = set(values["features"].split())
    test = Test(TestSuite("lit", folder, os.path.abspath(OUTPUT), config), (TEST,), config)
    result = execute(test, settings, own, text)
    log = readable(result.output, folder, tools)
    # A test may remove all that is the action's.
    os.makedirs(os.path.dirname(action.outputs["verdict"]), exist_ok=True)
    judge(action.outputs["verdict"], result, failures.results, tools, log)


def lay_out(action: Action, catalog: str, folder: str) -> None:
    """Make a folder like the test's own, with the test and the files beside it."""
    os.makedirs(folder)
    os.mkdir(OUTPUT)
    os.symlink(os.path.abspath(action.inputs["artifact"]), os.path.join(folder, TEST))
    for name, path in action.params.get("beside", {}).items():
        place = os.path.join(catalog, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.symlink(os.path.abspath(action.inputs[name]), place)


def substitutions(catalog: str, more: str) -> dict[str, str]:
    """Return what MLIR's own configuration of lit adds to lit's substitutions, and ``more``: ``NAME=VALUE …``."""
    libraries = os.path.abspath(LIBRARIES)
    stubs = f"{libraries}/libmlir_arm_sme_abi_stubs.so"
    return {
        "T": os.path.abspath(OUTPUT),
        "shlibext": ".so",
        "mlir_src_dir": f"{catalog}/mlir",
        "mlir_src_root": f"{catalog}/mlir",
        "llvm_src_root": f"{catalog}/llvm",
        "mlir_lib_dir": libraries,
        "mlir_native_utils_lib_dir": libraries,
        **dict.fromkeys(("arm_sme_abi_shlib", "native_arm_sme_abi_shlib"), stubs),
        **{name: f"{libraries}/lib{name}.so" for name in RUNTIMES},
        **{f"native_{name}": f"{libraries}/lib{name}.so" for name in RUNTIMES},
        "lli": "lli",
        # Without an emulator, LLVM's own configuration runs what is for Arm here.
        "lli_host_or_aarch64_cmd": "lli",
        "mcr_aarch64_cmd": "mlir-runner",
        "ENABLE_VLA": "false",
        "VLA_ARCH_ATTR_OPTIONS": "",
        **dict(each.partition("=")[::2] for each in more.split()),
    }


def link_libraries() -> None:
    """Link LLVM's runtime libraries, whose file names have versions, under plain names in ``lib``."""
    os.mkdir(LIBRARIES)
    words = command_of("mlir-opt")
    places = [os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(words[-1]))), "lib")]
    if "--library-path" in words:
        places += words[words.index("--library-path") + 1].split(":")
    found: dict[str, str] = {}
    for place in filter(os.path.isdir, places):
        for name in sorted(os.listdir(place)):
            if name.startswith("libmlir_") and ".so" in name:
                found.setdefault(name.partition(".so")[0], os.path.join(place, name))
    for name, path in found.items():
        os.symlink(path, os.path.join(LIBRARIES, f"{name}.so"))


def programs(text: str) -> dict[str, list[str]]:
    """Return the programs of the environment that a text names, and the words that start them."""
    found = {}
    for name in sorted(set(re.findall(_WORD, text))):
        for each in filter(None, (name, RENAMED.get(name))):
            try:
                words = command_of(each)
                # What a script calls is not in the PATH of RUN lines.
                variables = [f"{key}={value}" for key, value in variables_of(each).items()]
                found[name] = ["env", *variables, *words] if variables else words
                break
            except MachineFailed:
                continue
    return found


def pattern(program: str) -> str:
    """Return where a program's name is the program: as LLVM's tests have it, and not where its start names it again."""
    # lit has its own, which can do all else.
    return r"(?<![\w./-])not(?= --crash\b)" if program == "not" else f"(?<!--argv0 ){ToolSubst(program).regex}"


def environment() -> dict[str, str]:
    """Return the environment of programs. No folder of the machine is searched for them."""
    top = os.getcwd()
    own = {"LC_ALL": "C", "HOME": top, "TMPDIR": top, "PATH": os.path.abspath("bin"), "FILECHECK_OPTS": FILECHECK}
    tunables = os.environ.get("GLIBC_TUNABLES")
    return {**own, **({"GLIBC_TUNABLES": tunables} if tunables else {})}


def execute(test: Test, settings: LitConfig, own: Sequence[tuple[str, str]], text: str) -> Result:
    """Return what lit says of a test, with substitutions of our ``own`` beside lit's; ``text`` has its directives.

    Where lit raises an exception, the test is not resolved, as lit itself has it.
    """
    place = ""
    commands: list[str] = []
    try:
        result = directives = parseIntegratedTestScript(test)
        if not isinstance(directives, Result):
            folder, base = getTempPaths(test)
            known = [*own, *mentioned(getDefaultSubstitutions(test, folder, base), text)]
            for directive in directives:
                place = f" ({directive.get_location()})"
                commands += applySubstitutions([directive], known, test.config.available_features, DEEPEST)
            place = f" (lines {directives[0].start_line_number} to {directives[-1].end_line_number})"
            result = _runShTest(test, settings, False, commands, base)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        said = str(error) if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: {error}"
        result = Result(UNRESOLVED, f"{said}{place}")
    test.setResult(result)
    return result


def mentioned(known: Iterable[tuple[str, str]], text: str) -> list[tuple[str, str]]:
    """Leave out substitutions that no directive can mean: lit compiles an expression for each, which takes longer than the rest.

    ``text``: the directives and the values of our substitutions. The percent sign of a name is ignored, because a
    substitution can produce it.
    """
    known = list(known)
    while True:
        found = [(name, value) for name, value in known if name.removeprefix("%") in text]
        longer = text + " ".join(value for _, value in found if value not in text)
        if longer == text:
            return found
        text = longer


def readable(log: str, folder: str, tools: Mapping[str, list[str]]) -> str:
    """Return lit's log with names of programs and relative paths. Raise MachineFailed where a program does not start."""
    for name, words in tools.items():
        log = log.replace(shlex.join(words), name)
    log = clean(log.replace(f"\n{SAID}", "\n").replace(f"{folder}/", ""))
    for words in tools.values():
        # FileCheck quotes its input, with the numbers of lines. Of a script, only the last word is the program.
        check_started(words[-1:] if words[0] == "env" else words, NOT_TAKEN, re.sub(_QUOTED, "", log))
    return log


def judge(path: str, result: Result, failures: Sequence[Any], tools: Mapping[str, list[str]], log: str) -> None:
    """Write the verdict that a result of lit stands for."""
    ran = [line for line in result.output.splitlines() if line.startswith(RAN)]
    if result.code is UNSUPPORTED:
        write_verdict(path, "unsupported", stage="import", reason=log)
    elif result.code is UNRESOLVED:
        write_verdict(path, "import-failed", stage="import", reason=log)
    elif result.code is XPASS:
        why = "XFAIL: the test is expected to fail, and all its RUN lines succeed"
        write_verdict(path, "mismatch", reason=why, diagnostics=log)
    elif result.code is FAIL:
        line, _, last = result.output.rpartition(f"\n{RUN_LINE}")[2].partition("\n")
        # What failed in earlier lines did not fail them.
        report(path, failures[-last.count(f"\n{LOST}")], line, tools, log)
    elif result.code is XFAIL or any(shlex.join(words) in line for words in tools.values() for line in ran):
        write_verdict(path, "pass")
    elif ran:
        why = "no RUN line runs a program of its environment, so nothing is tested"
        write_verdict(path, "import-failed", stage="import", reason=why, diagnostics=log)
    else:
        write_verdict(path, "unsupported", stage="import", reason="all RUN lines are for other features")


def report(path: str, failed: Any, line: str, tools: Mapping[str, list[str]], log: str) -> None:
    """Write the verdict on a test whose RUN line failed by a command."""
    words = list(map(str, failed.command.args))
    code, said = failed.exitCode, clean(failed.stderr[:LONGEST])
    calls = (
        (at, name) for at in range(len(words)) for name in tools if words[at : at + len(tools[name])] == tools[name]
    )
    at, program = next(calls, (0, words[0]))
    negated = program == "not" or not {"not", "!"}.isdisjoint(words[:at])
    stage = STAGES.get(program, "lower")
    if negated or re.search(_VERIFIES, " ".join(words)):
        stage = "judge"
    absent = missing(words)
    not_taken = code == NOT_TAKEN and program != "lli"
    reported = sanitizer_of(said)
    if code < 0 or reported:
        name = reported or next((each.name for each in signal.Signals if each == -code), f"signal {-code}")
        why = last_words(said)
        reason = f"{name} in {program} (RUN line {line}){': ' if why else ''}{why}"
        stage = STAGES.get(program, "lower")
        # If a test exceeds its time, its programs are aborted, and only this line says where.
        print(f"{reason}\n{log}")
        write_verdict(path, "crashed", stage=stage, reason=reason, diagnostics=log, signal=name)
    elif absent:
        write_verdict(path, "import-failed", stage="import", reason=f"RUN line {line}: {absent}", diagnostics=log)
    elif not_taken and program in tools and NOT_STARTED in said:
        raise MachineFailed(f"RUN line {line}: {said}")
    elif not_taken:
        write_verdict(path, "import-failed", stage="import", reason=f"RUN line {line}: {said}", diagnostics=log)
    else:
        what = "does not fail as the test expects it to" if negated else f"fails with exit code {code}"
        reason = f"{program} of RUN line {line} {what}: {first_error(program, said)}"
        if unknown := re.search(_UNKNOWN, " ".join(words)):
            reason += f"; '{unknown[0]}' is no substitution"
        write_verdict(path, FAILED[stage], stage=stage, reason=reason, diagnostics=log)


def first_error(program: str, said: str) -> str:
    """Return the first error in what a program said, else its first line; FileCheck's with the line of the test."""
    found = re.search(_ERROR, said)
    lines = [line for line in said.splitlines() if line.strip()] or ["it prints nothing"]
    text = re.sub(_OPERATION, "", found[1] if found else lines[0])[:300]
    place = re.search(rf"{re.escape(TEST)}:(\d+)", said) if program == "FileCheck" else None
    return f"{text} (line {place[1]})" if place else text


def missing(words: Sequence[str]) -> str:
    """Return which file of the catalog a command names that is not there; empty for none."""
    catalog = os.path.abspath(CATALOG)
    for path in re.findall(rf"{re.escape(catalog)}/[\w./+-]+", " ".join(words)):
        if not os.path.exists(path):
            return f"no file {path.removeprefix(f'{catalog}/')} is beside the test; corpus.yaml can name it in 'beside'"
    return ""
