"""Outcomes: the words for what a tool raises, texts that repeat and that a screen can show, files that cannot be tricked."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from numpy.linalg import _umath_linalg

from mlir_matrix.actions import contract
from mlir_matrix.actions.contract import Action, ActionCrashed, ActionFailed, MachineFailed, under_test
from mlir_matrix.actions.runtime import child
from support.programs import LOST_LIBRARY, unloadable


class OddError(BaseException):
    """Its text cannot be read."""

    def __str__(self) -> str:
        raise ValueError("no text")


NO_LIBRARY = "cannot open shared object file: No such file or directory"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """A tool that does what a test puts under ``run``, in a folder of its own."""
    does: dict[str, Any] = {}
    module = ModuleType("mlir_matrix.actions.tools.tried")

    def run(action: Action) -> None:
        does["run"](action)

    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    return does


def perform(stage: str = "lower", **outputs: str) -> dict[str, str]:
    return child.perform({"tool": "tried", "stage": stage, "params": {}, "inputs": {}, "outputs": outputs})


def raising(error: BaseException) -> Any:
    def run(action: Action) -> None:
        with under_test():
            exec("raise error", {"error": error})

    return run


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (ActionFailed("it is wrong", diagnostics="all of it"), "lower-failed", "it is wrong"),
        (ActionFailed("zig failed", diagnostics="error: NoSpaceLeft"), "infra-error", "disk is full"),
        (ActionCrashed("SIGSEGV"), "crashed", "SIGSEGV while at stage lower"),
        (
            ActionCrashed(
                "SIGABRT",
                diagnostics="LLVM ERROR: Cannot select: 0x55d0a1b2c3d4: f32 = bf16_to_fp 0x55d0a1b2c3e8\n  t3",
            ),
            "crashed",
            "SIGABRT while at stage lower: LLVM ERROR: Cannot select: f32 = bf16_to_fp 0x…",
        ),
        (
            ActionCrashed(
                "SIGABRT", diagnostics='opt: a/b.cpp:25: float f() const: Assertion `isIt(x) && "odd"\' failed.\n'
            ),
            "crashed",
            'SIGABRT while at stage lower: Assertion `isIt(x) && "odd"\' failed',
        ),
        (
            ActionCrashed("AddressSanitizer", diagnostics="==ERROR: AddressSanitizer: heap-use-after-free on address"),
            "crashed",
            "AddressSanitizer while at stage lower: heap-use-after-free",
        ),
        (ActionCrashed("SIGILL"), "crashed", "is the code for another CPU?"),
        (MachineFailed("cannot read"), "infra-error", "cannot read"),
        (OSError(errno.ENOSPC, "No space left on device"), "infra-error", "No space left"),
        (OSError(errno.EIO, "Input/output error"), "infra-error", "Input/output"),
        (OSError(errno.ENOENT, "No such file"), "lower-failed", "FileNotFoundError"),
        (ImportError(f"libx.so.1: {NO_LIBRARY}"), "lower-failed", "ImportError: libx.so.1"),
        (OSError(f"libx.so.1: {NO_LIBRARY}"), "lower-failed", "OSError: libx.so.1"),
        (ModuleNotFoundError("No module named 'x'"), "lower-failed", "ModuleNotFoundError: No module"),
        (MemoryError(), "lower-failed", "out of memory"),
        (RecursionError("deep"), "lower-failed", "RecursionError: deep"),
        (KeyboardInterrupt(), "lower-failed", "KeyboardInterrupt"),
        (SystemExit(0), "lower-failed", r"SystemExit(0)"),
        (SystemExit("x" * 1000), "lower-failed", "SystemExit"),
        (OddError(), "lower-failed", "OddError (its text cannot be read)"),
        (ValueError("first\nsecond"), "lower-failed", "ValueError: first"),
        (ValueError("  "), "lower-failed", "ValueError"),
        (ValueError("x" * 10_000), "lower-failed", "ValueError: xxx"),
        (ExceptionGroup("many", [ValueError("a"), ValueError("b")]), "lower-failed", "many"),
    ],
)
def test_what_is_raised(tool: dict[str, Any], error: BaseException, outcome: str, reason: str) -> None:
    tool["run"] = raising(error)
    result = perform()
    assert (result["outcome"], result["stage"]) == (outcome, "lower")
    assert reason in result["reason"]
    assert len(result["reason"]) < 2_100
    assert "\n" not in result["reason"]


@pytest.mark.parametrize(
    ("place", "outcome", "reason"),
    [
        ("site", "infra-error", "a library of the environment is missing: ImportError: lost.so.6: "),
        ("in", "lower-failed", "ImportError: lost.so.6: "),
    ],
)
def test_an_extension_module_that_the_loader_refuses(
    tool: dict[str, Any], monkeypatch: pytest.MonkeyPatch, place: str, outcome: str, reason: str
) -> None:
    """One of a package is no fault of the code; one beside the code is."""
    change, _ = LOST_LIBRARY
    unloadable(Path(place, "refused.so"), change, of=_umath_linalg.__file__)
    monkeypatch.setattr(child, "sites", [os.path.abspath("site")])
    monkeypatch.syspath_prepend(os.path.abspath(place))

    def run(action: Action) -> None:
        with under_test():
            exec("import refused")

    tool["run"] = run
    result = perform()
    assert (result["outcome"], result["reason"]) == (outcome, reason + NO_LIBRARY)


def ours(error: BaseException) -> Any:
    def run(action: Action) -> None:
        with pytest.raises(ValueError), under_test():
            raise ValueError("this one was dealt with")
        raise error

    return run


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"), OSError(errno.ENOENT, "No such file"), RecursionError("deep"), KeyboardInterrupt(), SystemExit(0),
        MemoryError(), StopIteration(), OddError(),
    ],
)  # fmt: skip
def test_a_mistake_of_ours_is_no_verdict(tool: dict[str, Any], error: BaseException) -> None:
    """Neither kept nor blamed on what is under test, with its traceback."""
    tool["run"] = ours(error)
    result = perform()
    assert (result["outcome"], result["stage"]) == ("infra-error", "lower")
    wanted = (
        "out of memory"
        if isinstance(error, MemoryError)
        else f"internal error: the tool tried raised {type(error).__name__}"
    )
    assert wanted in result["reason"]
    assert "test_child.py" in result["diagnostics"]


@pytest.mark.parametrize("spoil", ["os.rename('out', 'gone')", "os.chdir('/')", "os.remove('in/x')"])
def test_what_spoils_its_folder_is_retried(tool: dict[str, Any], spoil: str) -> None:
    """Our own error then is no mistake of ours, and no sure verdict."""
    for name in ("in", "out"):
        Path(name).mkdir()
    Path("in/x").write_text("x")

    def run(action: Action) -> None:
        with under_test():
            exec(f"import os; {spoil}")
        Path(action.inputs["x"]).read_text()
        Path(action.outputs["a"]).write_text("x")

    tool["run"] = run
    request = {"tool": "tried", "stage": "run", "params": {}, "inputs": {"x": "in/x"}, "outputs": {"a": "out/a"}}
    result = child.perform(request)
    assert (result["outcome"], result["cache"]) == ("run-failed", "retry")
    assert "No such file" in result["reason"]


def test_blocks_may_overlap(tool: dict[str, Any]) -> None:
    """A generator keeps its block open while we go on; what we raise then is ours all the same."""

    def lines(source: str) -> Generator[None]:
        with under_test():
            yield exec(source)

    def run(action: Action) -> None:
        with closing(lines("pass")) as opened:
            next(opened)
            exec(tool["then"], {"lines": lines})

    tool.update(run=run, then="next(lines('raise ValueError(1)'))")
    assert (perform()["outcome"], perform()["reason"]) == ("lower-failed", "ValueError: 1")
    tool["then"] = "raise ValueError(2)"
    assert (perform()["outcome"], perform()["reason"]) == (
        "infra-error",
        "internal error: the tool tried raised ValueError: 2",
    )


def test_a_call_that_does_not_fit_is_ours(tool: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another release than we know: the TypeError comes from no code but ours."""
    monkeypatch.setattr(contract, "_OURS", __file__)

    def run(action: Action) -> None:
        with under_test(any_frame=tool["any_frame"]):
            json.loads("{}", None) if tool["call"] else exec("None.attribute")

    tool["run"] = run
    for call, any_frame, outcome in ((True, False, "infra"), (True, True, "lower"), (False, False, "lower")):
        tool.update(call=call, any_frame=any_frame)
        assert perform()["outcome"].startswith(outcome), (call, any_frame)


@pytest.mark.parametrize(
    ("stage", "word"),
    [("import", "import-failed"), ("lower", "lower-failed"), ("codegen", "codegen-failed"), ("run", "run-failed"),
     ("judge", "mismatch")],
)  # fmt: skip
def test_words_of_stages(tool: dict[str, Any], stage: str, word: str) -> None:
    tool["run"] = raising(ValueError("x"))
    assert perform(stage)["outcome"] == word == child.failed_outcome(stage)


@pytest.mark.parametrize(
    ("stage", "signal_name", "said", "reason"),
    [
        ("lower", "SIGABRT", "LLVM ERROR: out of memory\nAllocation failed\n", ": LLVM ERROR: out of memory"),
        ("run", "SIGABRT", "1.0\nunimplemented: singular matrices\n", ": unimplemented: singular matrices"),
        ("run", "SIGSEGV", "1.0\n", ""),
        ("lower", "SIGABRT", "a frame of a stack\n", ""),
    ],
)
def test_a_crash_has_the_last_words_of_llvm_or_of_a_kernel_that_aborts(
    stage: str, signal_name: str, said: str, reason: str
) -> None:
    assert child.crash(stage, signal_name, said)["reason"] == f"{signal_name} while at stage {stage}{reason}"


def test_outputs_must_be_there(tool: dict[str, Any]) -> None:
    tool["run"] = lambda action: Path(action.outputs["a"]).write_text("x")
    assert perform(a="out/a") == {"outcome": "ok", "stage": "lower"}
    result = perform(a="out/a", b="out/deep/b", c="out/c")
    assert (result["outcome"], result["reason"]) == ("infra-error", "internal error: the tool tried did not write b, c")


def test_texts_repeat_and_can_be_shown() -> None:
    text = "at 0x7ffdeadbeef0 \x1b[31mred\x1b[0m \x00\x07\u202e\ud800 tab\there\nline\r"
    result = child.failure("lower", "lower-failed", text, text)
    for said in (result["reason"], result["diagnostics"]):
        assert "0x…" in said
        assert "7ffdeadbeef0" not in said
        assert said.encode().decode() == said
        assert not set(said) & set("\x1b\x00\x07\u202e\r")
    assert "tab\there line" in result["reason"]
    assert "tab\there\nline" in result["diagnostics"]


def test_texts_are_cut() -> None:
    result = child.failure("lower", "lower-failed", "r" * 1_000_000, "d" * 1_000_000)
    assert len(result["reason"]) == 2_001
    assert result["diagnostics"].endswith("\n… (cut)")
    assert len(result["diagnostics"]) < 200_100


def test_traces_name_no_folder_of_this_machine(tool: dict[str, Any]) -> None:
    tool["run"] = raising(ValueError("x"))
    text = perform()["diagnostics"]
    assert "ValueError: x" in text
    assert str(Path(__file__).parents[4]) not in text
    assert 'File "mlir_matrix/actions/runtime/child.py"' in text


@pytest.mark.parametrize("odd", ["nothing", "file", "folder", "full", "link", "pipe"])
def test_outcome_takes_its_place(tmp_path: Path, odd: str) -> None:
    """Whatever lies there, and never through a link."""
    place, elsewhere = tmp_path / "outcome.json", tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    if odd == "file":
        place.write_text("old")
    elif odd in ("folder", "full"):
        place.mkdir()
        (tmp_path / "outcome.json.tmp").mkdir()
        if odd == "full":
            (place / "x").write_text("x")
    elif odd == "link":
        place.symlink_to(elsewhere)
        (tmp_path / "outcome.json.tmp").symlink_to(elsewhere)
    elif odd == "pipe":
        os.mkfifo(place)
    child.write_outcome(str(tmp_path), {"outcome": "ok"})
    assert json.loads(place.read_text()) == {"outcome": "ok"}
    assert elsewhere.read_text() == "kept"


@pytest.mark.parametrize("odd", ["folder", "link", "pipe", "device", "nothing"])
def test_only_plain_files_are_read(tmp_path: Path, odd: str) -> None:
    """Nothing is waited for."""
    place = tmp_path / "log.txt"
    if odd == "folder":
        place.mkdir()
    elif odd == "link":
        (tmp_path / "secret").write_text("secret")
        place.symlink_to("secret")
    elif odd == "pipe":
        os.mkfifo(place)
    elif odd == "device":
        place.symlink_to("/dev/zero")
    started = time.monotonic()
    with pytest.raises(OSError):
        child.open_plain(str(place))
    assert child.read_log(str(tmp_path)) == ""
    assert time.monotonic() - started < 60


def test_the_end_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_bytes(b"\xff" + b"a" * 50_000 + b"the end")
    text = child.read_log(str(tmp_path), limit=100)
    assert len(text) == 100
    assert text.endswith("the end")


def fork(folder: Path, **request: Any) -> int:
    """Status of a forked child that performs a request."""
    whole = {"tool": "tried", "stage": "run", "params": {}, "inputs": {}, "outputs": {}, **request}
    pid = os.fork()
    if pid == 0:
        child.run_forked(whole, str(folder), memory_mb=2048, space=None)
    return os.waitpid(pid, 0)[1]


def test_a_forked_child_never_comes_back(tool: dict[str, Any], tmp_path: Path) -> None:
    """It leaves its outcome and log, whatever it did to folder, streams and descriptors."""

    def run(action: Action) -> None:
        os.write(1, b"said\n")
        assert os.environ["HOME"] == os.environ["TMPDIR"] == str(tmp_path)
        assert sorted(int(name) for name in os.listdir("/proc/self/fd"))[:3] == [0, 1, 2]
        assert len(os.listdir("/proc/self/fd")) <= 4
        os.chdir("/")
        os.closerange(0, 1000)

    tool["run"] = run
    assert os.waitstatus_to_exitcode(fork(tmp_path)) == 0
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert outcome == {"outcome": "ok", "stage": "run"}, outcome["diagnostics"]
    assert (tmp_path / "log.txt").read_text() == "said\n"


def test_a_child_whose_folder_is_gone(tool: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    tool["run"] = lambda action: folder.rename(tmp_path / "other")
    assert os.waitstatus_to_exitcode(fork(folder)) == 70


def test_a_child_that_is_killed(tool: dict[str, Any], tmp_path: Path) -> None:
    tool["run"] = lambda action: os.kill(os.getpid(), signal.SIGSEGV)
    assert os.WTERMSIG(fork(tmp_path)) == signal.SIGSEGV
    assert not (tmp_path / "outcome.json").exists()
