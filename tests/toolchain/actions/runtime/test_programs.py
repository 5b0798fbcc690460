"""Programs of prefixes: which is run and how, and what is made of what they say."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions import contract
from mlir_matrix.actions.contract import ActionCrashed, ActionFailed, MachineFailed, prefixes
from mlir_matrix.actions.runtime import programs
from mlir_matrix.actions.sandbox import isolation
from mlir_matrix.environments.installed import prefix as environment_prefix
from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.lockfiles.debian import DebianRelease
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.worker_process import worker_command
from support.programs import LOST_LIBRARY, NEW_VERSION, unloadable

Prefixes = Callable[..., Path]


def say(text: str, code: int = 1) -> str:
    """A program that says something and ends."""
    return f"#!/bin/sh\n/bin/cat >&2 <<'END'\n{text}\nEND\nexit {code}\n"


@pytest.fixture
def call(prefix: Prefixes, tmp_path: Path) -> Any:
    """Runs a script as a program of the environment, in a folder of its own."""

    def run(script: str, *arguments: str) -> Path:
        root = prefix(it=script)
        folder = tmp_path / "folder"
        folder.mkdir()
        with contextlib.chdir(folder):
            programs.call("it", arguments, output="given", failure="it failed")
        return root

    return run


def test_the_first_prefix_that_has_it_counts(prefix: Prefixes) -> None:
    first, second = prefix("a", "1", x="", y=""), prefix("b", "2", y="", z="")
    for program, root in (("x", first), ("y", first), ("z", second)):
        assert programs.has(program)
        assert programs.command(program) == [f"{root}/bin/{program}"]
    assert not programs.has("w")
    assert (programs.release("y"), programs.release("z")) == ("1", "2")


def test_a_program_of_a_wheel_with_the_libraries_of_a_prefix(
    prefix: Prefixes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is what the loader of the prefix starts; without that, it starts as it is. Variables are added to the others."""
    lender, program = prefix("lender"), tmp_path / "site" / "bin" / "tool"
    program.parent.mkdir(parents=True)
    loader = lender / "bin" / "loader"
    for file in (program, loader):
        file.write_text('#!/bin/sh\nfor word in "$0" "$@" "$LC_ALL" "$DRIVER"; do echo "$word"; done\n')
        file.chmod(0o755)
    described = {"loader": "bin/loader", "libraries": ["lib", "usr/lib"], "programs": {}}
    (lender / ".matrix" / "prefix.json").write_text(json.dumps(described))
    monkeypatch.setattr(contract, "sites", [str(tmp_path / "site")])
    monkeypatch.setattr(programs, "sites", contract.sites)
    monkeypatch.setattr(programs, "folders", ["bin"])
    monkeypatch.chdir(tmp_path)
    assert programs.execute("tool", ["x"], variables={"DRIVER": "d"}).splitlines() == ["bin/tool", "x", "C", "d"]
    libraries = [f"{lender}/lib", f"{lender}/usr/lib"]
    assert programs.command("tool", libraries=True) == [
        str(loader), "--inhibit-cache", "--argv0", "tool", "--library-path", ":".join(libraries), str(program),
    ]  # fmt: skip
    assert programs.execute("tool", ["x"], libraries=True).splitlines()[0] == "bin/loader"


def test_a_program_that_is_not_there_is_no_fault_of_the_code(prefix: Prefixes) -> None:
    """Nobody's verdict, so that it is not kept."""
    prefix(x="")
    for ask in (programs.command, programs.release):
        with pytest.raises(MachineFailed, match="the environment has no program w"):
            ask("w")


@pytest.mark.parametrize(("change", "said"), [LOST_LIBRARY, NEW_VERSION])
def test_a_program_that_the_loader_refuses_is_no_fault_of_the_code(
    prefix: Prefixes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[bytes, bytes], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    unloadable(prefix(opt="") / "bin/opt", change)
    with pytest.raises(MachineFailed, match=f"a program does not start: .*bin/opt: .*{said}"):
        programs.execute("opt", ["x"])


@pytest.mark.parametrize(("mode", "said"), [(0o755, "Exec format error"), (0o644, "Permission denied")])
def test_a_file_that_is_no_program_is_no_fault_of_the_code(prefix: Prefixes, mode: int, said: str) -> None:
    (prefix(opt="of another machine") / "bin/opt").chmod(mode)
    with pytest.raises(MachineFailed, match=f"^opt does not start: {said}"):
        programs.execute("opt", ["x"])


def test_a_prefix_without_its_loader(prefix: Prefixes) -> None:
    root = prefix(opt="")
    described = {"loader": "lib/ld.so", "libraries": [], "programs": {"opt": {"path": "bin/opt", "loaded": True}}}
    (root / ".matrix" / "prefix.json").write_text(json.dumps(described))
    with pytest.raises(MachineFailed, match=r"^opt does not start: No such file or directory"):
        programs.execute("opt", ["x"])


@pytest.mark.parametrize(
    "said", ["it: error while loading shared libraries: x.so: cannot open", "opt: no such pass", ""]
)
def test_what_a_program_says_that_starts_is_a_verdict(call: Any, said: str) -> None:
    """Its source may have it say so: what it does for another command line counts."""
    with pytest.raises(ActionFailed, match=f"it failed: {said}"):
        call('#!/bin/sh\ntest "$1" = --version && exit\n' + say(said, 127))


@pytest.mark.parametrize("line", ["nowhere x", "exec nowhere", "exec env nowhere"])
def test_a_script_that_calls_what_is_not_there_is_no_fault_of_the_code(call: Any, line: str) -> None:
    with pytest.raises(MachineFailed, match=r"^it does not find nowhere: scripts have sh, python3, "):
        call(f"#!/bin/sh\n{line}\n")


@pytest.mark.parametrize(
    ("release", "major", "before"),
    [
        ("15.0.6", 16, True), ("16.0.6", 16, False), ("9", 16, True), ("24.0.0+deb.20261025", 24, False),
        ("23.1.4", 24, True), ("main", 24, False), ("", 24, False), ("v15", 16, False),
    ],
)  # fmt: skip
def test_what_is_older_than_a_major_release(
    prefix: Prefixes, monkeypatch: pytest.MonkeyPatch, release: str, major: int, before: bool
) -> None:
    """What begins with no number, as a branch or a commit does, is newer than all."""
    prefix("llvm-1.0-0123456789ab", release, it="")
    monkeypatch.setitem(contract.programs, "host", (release, "/usr/bin/host"))
    for program in ("it", "host"):
        assert programs.release(program) == release
        assert programs.before(program, major) == before


def test_the_release_comes_from_the_workers_command_line(tmp_path: Path) -> None:
    """As the lock has it, whatever the folder is called: the bootstrap's own words, in a real interpreter."""
    locks = [DebianRelease(component="tool", release=release, packages=()) for release in ("2024-01", "main")]
    found = ResolvedEnvironment(name="x", interpreter=own(), packages=(), prefixes=tuple(locks))
    command = worker_command(found, store=tmp_path / "a=b", bytecode=tmp_path, arguments=["action.json"])
    folders = {f"{tmp_path}/a=b/{lock.folder}": lock.release for lock in locks}
    at = next(index for index, word in enumerate(command) if word.endswith("bootstrap.py"))
    words = [word for folder, release in folders.items() for word in ("--prefix", f"{release}={folder}")]
    assert command[at + 1 :] == [*words, "action.json"]
    text, _, _ = Path(command[at]).read_text().partition("    sys.exit(main(")
    text += "    print(__import__('json').dumps(prefixes))\n"
    probe = tmp_path / "probe.py"
    probe.write_text(text.replace("__file__", repr(command[at])))
    words = [*command[:at], str(probe), *command[at + 1 :]]
    done = subprocess.run(words, env={"PATH": ""}, capture_output=True, text=True, check=True)
    assert list(json.loads(done.stdout).items()) == list(folders.items())


def test_what_is_loaded_is_loaded_as_people_load_it(tmp_path: Path, prefix: Prefixes) -> None:
    """The worker knows prefixes from their file alone; the words are those of ``matrix toolchain which``."""
    root = prefix(still="")
    described = environment_prefix.Prefix(
        loader="lib64/ld-linux-x86-64.so.2",
        libraries=("opt/lib", "usr/lib"),
        programs={"it": environment_prefix.PrefixProgram(path="opt/bin/it", loaded=True)},
    )
    value = {
        "loader": described.loader,
        "libraries": described.libraries,
        "programs": {"it": {"path": "opt/bin/it", "loaded": True}},
    }
    (root / ".matrix" / "prefix.json").write_text(json.dumps(value))
    read = environment_prefix.read_prefix(root)
    assert programs.command("it") == described.argv(str(root), "it") == read.argv(str(root), "it")
    assert programs.command("it")[0] == f"{root}/lib64/ld-linux-x86-64.so.2"


def test_the_path_of_a_library(tmp_path: Path, prefix: Prefixes) -> None:
    root = prefix(x="")
    described = {"loader": "", "libraries": ["lib", "usr/lib"], "programs": {}}
    (root / ".matrix" / "prefix.json").write_text(json.dumps(described))
    (root / "usr/lib").mkdir(parents=True)
    (root / "usr/lib" / "libit.so.1").write_text("")
    assert programs.library("libit.so.1") == f"{root}/usr/lib/libit.so.1"
    with pytest.raises(MachineFailed, match="the environment has no library libother"):
        programs.library("libother.so")


def test_a_program_sees_nothing_of_the_machine(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "1")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    call('#!/bin/sh\n/usr/bin/env > seen; echo "$@" > given; ! read line', "a b", "c")
    seen = dict(line.split("=", 1) for line in (tmp_path / "folder" / "seen").read_text().splitlines())
    assert {name: seen.pop(name) for name in ("LC_ALL", "HOME", "TMPDIR")} == {
        "LC_ALL": "C", "HOME": str(tmp_path / "folder"), "TMPDIR": str(tmp_path / "folder"),
    }  # fmt: skip
    assert {name: value for name, value in seen.items() if name not in ("PWD", "_", "SHLVL", "OLDPWD")} == {
        # Of a script: utilities, and Python.
        "PATH": "/usr/bin:/bin", "PYTHONPATH": "", "PYTHONHASHSEED": "0",
        "GLIBC_TUNABLES": isolation.CLEAN_ENVIRONMENT["GLIBC_TUNABLES"],
    }  # fmt: skip
    assert (tmp_path / "folder" / "given").read_text() == "a b c -o given\n"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("f.mlir:1:2: error: expected ']'\nf.mlir:3:1: error: more", "expected ']'"),
        ("LLVM ERROR: Cannot select: t3", "Cannot select: t3"),
        ("opt: unknown option -x", "opt: unknown option -x"),
        ("\n  \nwarning: hm\nit: error: no such file", "no such file"),
        ('f:1:1: error: failed to legalize: %0 = "x.y"(%1) : (f32) -> f32', "failed to legalize"),
        (
            "f:1:1: error: failed to legalize operation 'x.y' that was explicitly marked illegal",
            "no pattern converts 'x.y'",
        ),
        ("", "it prints nothing"),
        ("error: " + "x" * 1000, "x" * 300),
    ],
)
def test_the_first_error_is_the_reason(call: Any, said: str, reason: str) -> None:
    with pytest.raises(ActionFailed) as caught:
        call(say(said))
    assert caught.value.reason == f"it failed: {reason}"


def test_a_signal_is_a_crash(call: Any) -> None:
    with pytest.raises(ActionCrashed) as caught:
        call("#!/bin/sh\necho before\nkill -SEGV $$\n")
    assert caught.value.signal == "SIGSEGV"
    assert caught.value.diagnostics == "before\n"


ASAN = """\
==19058==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000014 at pc 0x559cd2a6f2d1
    #0 0x559cd2a6f2d0 in __interceptor_memcpy /src/asan.cpp:5
    #1 0x559cd2a6f596 in mlir::f(int*) /src/a.cpp:8:3
    #2 0x559cd2a6f1a0  (/build/bin/mlir-opt+0x21a0)
"""
UBSAN = "a.cpp:6:55: runtime error: signed integer overflow: 2 + 2147483647\n"
ABORTED = "opt: a.cpp:8: void f(): Assertion `x' failed."


@pytest.mark.parametrize(
    ("said", "code", "signal", "kept"),
    [
        (ASAN, 1, "AddressSanitizer", "==ERROR: AddressSanitizer: heap-use-after-free on address 0x6"),
        (UBSAN, 1, "UndefinedBehaviorSanitizer", UBSAN),
        # A shell reports the signal of its program by its exit code.
        (ABORTED, 134, "SIGABRT", ABORTED),
    ],
)
def test_reports_of_assertions_and_sanitizers_are_crashes(
    call: Any, said: str, code: int, signal: str, kept: str
) -> None:
    with pytest.raises(ActionCrashed) as caught:
        call(say(said, code))
    assert caught.value.signal == signal
    assert caught.value.diagnostics.startswith(kept)
    if said == ASAN:
        assert caught.value.diagnostics.splitlines()[1:] == ["#  mlir::f(int*)", ""]


def test_what_a_program_prints_of_an_assertion_is_no_crash(call: Any) -> None:
    with pytest.raises(ActionFailed):
        call(say(ABORTED))


def test_options_of_sanitizers_are_for_builds_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"one": ("23.0.0+own.1.asan", "/one"), "two": ("23.0.0+own.1.assertions", "/two")}
    monkeypatch.setattr(programs, "programs", own | {"llvm-symbolizer": ("23.0.0+own.1.asan", "/symbolizer")})
    monkeypatch.setattr(isolation, "memory_limits", {512})
    options = programs.variables_of("one")["ASAN_OPTIONS"]
    assert "hard_rss_limit_mb=512:external_symbolizer_path=/symbolizer" in options
    assert programs.variables_of("two") == {}


def test_diagnostics_are_the_same_everywhere(call: Any, tmp_path: Path) -> None:
    """No folder of the machine, no address, and not more than anyone reads."""
    text = (
        f"{tmp_path}/prefixes/tools/bin/it: error: bad {tmp_path}/folder/kernel.ll\n"
        "PLEASE submit a bug report\nStack dump:\n0.\tProgram arguments: it\n #0 0x00007f1 main\n #12 0x00007f2 start\n"
        "note: kept"
    )
    with pytest.raises(ActionFailed) as caught:
        call(say(text))
    assert caught.value.diagnostics == "bin/it: error: bad kernel.ll\nnote: kept\n"


def test_long_diagnostics_are_cut(call: Any) -> None:
    with pytest.raises(ActionFailed) as caught:
        call(say("x" * 300_000 + "\nerror: the last line"))
    assert caught.value.reason.endswith("the last line")
    assert caught.value.diagnostics.startswith("x" * 50_000 + "\n[200022 bytes cut]\nx")
    assert len(caught.value.diagnostics) < 101_000


def test_a_program_in_python_says_last_what_happened(call: Any) -> None:
    with pytest.raises(ActionFailed, match="ValueError: no such dialect"):
        call(say("Traceback (most recent call last):\n  File x\nValueError: no such dialect"))


def test_one_that_ends_well_and_writes_nothing(call: Any) -> None:
    with pytest.raises(ActionFailed, match="it failed: it exits with 0 and writes no output") as caught:
        call("#!/bin/sh\necho said")
    assert caught.value.diagnostics == "said\n"


def test_a_real_program(environments: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded by its prefix's own loader, wherever the prefix stands."""
    (root,) = environments.require("codegen").roots(environments.packages)
    moved = tmp_path / "a folder" / Path(root).name
    moved.parent.mkdir()
    moved.symlink_to(root)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(programs, "prefixes", {str(moved): "22.1.8"})
    (tmp_path / "in.mlir").write_text("func.func private @f(%x: i33)")
    assert programs.release("mlir-opt") == "22.1.8"
    programs.call("mlir-opt", ["in.mlir"], output="out.mlir", failure="no")
    assert "func.func private @f(i33)" in (tmp_path / "out.mlir").read_text()
    (tmp_path / "in.mlir").write_text("func.func @f(")
    with pytest.raises(ActionFailed, match=r"^no: expected") as caught:
        programs.call("mlir-opt", ["in.mlir"], output="-", failure="no")
    assert caught.value.diagnostics.startswith("in.mlir:1:13: error: expected")
    assert str(tmp_path) not in caught.value.diagnostics
    assert not prefixes


def test_frames_keep_their_symbols_and_lose_what_differs_between_machines() -> None:
    """As ``mlir-opt`` writes them, with and without a symbolizer."""
    stack = """PLEASE submit a bug report to https://github.com/llvm/llvm-project/issues/ and include the crash backtrace.
Stack dump:
0.\tProgram arguments: mlir-opt
 #0 0x00007f70958b73c6 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) (/packages/lib/libLLVM.so.19.1+0xeb73c6)
 #1 0x00007f70958b7a8b (/packages/lib/libLLVM.so.19.1+0xeb7a8b)
 #2 0x00007f7094445305 __pthread_kill_implementation ./nptl/pthread_kill.c:44:76
 #3 0x00007f7094445305 abort ./stdlib/abort.c:81:7
 #4 0x00007f70958ad4c5 (anonymous namespace)::Pass::run(mlir::Operation*, int) (/packages/bin/mlir-opt+0xea5)
#10 0x00007f709444524a mlir::operator/(A) /build/llvm/Pass.cpp:74:3
"""
    assert (
        programs.clean(stack) == "#  (anonymous namespace)::Pass::run(mlir::Operation*, int)\n#  mlir::operator/(A)\n"
    )


def test_frames_of_programs_without_debug_information() -> None:
    """As ``iree-compile`` writes them."""
    stack = """Please report issues to https://github.com/iree-org/iree/issues and include the crash backtrace.
Stack dump:
0.\tProgram arguments: iree-compile
0  libIREECompiler.so 0x00007f8d56223dd8 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) + 40
2  libIREECompiler.so 0x00007f8d5622448d
3  libc.so.6          0x00007f8d50a5a050
4  libIREECompiler.so 0x00007f8d58bbdb21 mlir::translateLoc(mlir::Location, llvm::DILocation*) + 14
10 libIREECompiler.so 0x00007f8d58bad42d mlir::operator+(A) + 1101
error: 7 of 9 + 3
"""
    assert programs.clean(stack).splitlines()[1:] == [
        "#  mlir::translateLoc(mlir::Location, llvm::DILocation*)", "#  mlir::operator+(A)", "error: 7 of 9 + 3",
    ]  # fmt: skip
