"""The worker as its users see it: lines in, lines out, and a folder with an outcome for each request.

The tool is ``run``, which needs nothing but the interpreter; the «kernel» is a shell script that does what a test needs.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.actions.contract import WorkRequest, WorkResponse
from mlir_matrix.actions.runtime import bytecode
from mlir_matrix.actions.runtime.bazel_layout import OUTCOME_MARK
from mlir_matrix.actions.runtime.worker import Worker
from mlir_matrix.actions.sandbox.isolation import CLEAN_ENVIRONMENT
from mlir_matrix.environments.interpreter import own

BOOTSTRAP = Path(__file__).parents[4] / "tools/mlir_matrix/actions/runtime/bootstrap.py"
#: What the scripts call, which an action has to declare like everything else.
CALLED = [f"{name}@0=/usr/bin/{name}" for name in ("date", "mkdir", "mkfifo", "rm", "setsid", "sleep")]
#: Takes the namespaces away: what a container may forbid.
BARE = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from mlir_matrix.actions.runtime import worker; "
    "from mlir_matrix.actions.sandbox import isolation; "
    "isolation.enter = lambda _: None; sys.exit(worker.main(sys.argv[1:]))"
)


def command(*words: str, isolated: bool = True, prefixes: Sequence[str] = ()) -> list[str]:
    base = [own().path, "-P", "-s", "-S"]
    declared = [word for prefix in prefixes for word in ("--prefix", prefix)]
    declared += [word for program in CALLED for word in ("--program", program)]
    return [*base, *(("-c", BARE, str(BOOTSTRAP.parents[3])) if not isolated else (str(BOOTSTRAP), *declared)), *words]


class Talk:
    """A running worker, and what it has answered."""

    def __init__(self, folder: Path, *, isolated: bool = True, prefixes: Sequence[str] = ()) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            command("--tool", "run", "--persistent_worker", isolated=isolated, prefixes=prefixes),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=CLEAN_ENVIRONMENT, start_new_session=True,
        )  # fmt: skip

    def ask(self, number: int, script: str, *, options: Sequence[str] = (), **request: Any) -> Path:
        folder = prepare(self.folder / str(number), script, **request)
        message = {"requestId": number, "sandboxDir": str(folder), "arguments": list(options), "inputs": []}
        self.say(json.dumps(message))
        return folder

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        os.write(self.process.stdin.fileno(), line.encode() + b"\n")

    def answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=120)


def prepare(folder: Path, script: str, **request: Any) -> Path:
    """A folder with a request to run a script as a kernel."""
    (folder / "in").mkdir(parents=True)
    kernel = folder / "in" / "kernel"
    kernel.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    kernel.chmod(0o755)
    whole = {
        "tool": "run", "stage": "run", "params": {"arguments": [], "results": []}, "inputs": {"kernel": "in/kernel"},
        "outputs": {}, **request,
    }  # fmt: skip
    (folder / "action.json").write_text(json.dumps(whole))
    return folder


def outcome(folder: Path) -> Any:
    return json.loads((folder / "outcome.json").read_text())


@pytest.fixture(params=[True, False], ids=["namespaces", "bare"])
def talk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Talk]:
    worker = Talk(tmp_path, isolated=request.param)
    yield worker
    worker.end()


@pytest.mark.namespaces
def test_what_an_action_sees_is_what_is_said(tmp_path: Path) -> None:
    """``--bound`` lists what is bound, and nothing else is mounted but what every action has of its own."""
    (tmp_path / "package").mkdir()
    declared = ["--bind", str(tmp_path / "package")]
    told = subprocess.run([*command(*declared), "--bound"], capture_output=True, text=True, timeout=60, check=True)
    folder = prepare(
        tmp_path / "1", "while read -r _ _ _ _ place _; do echo $place; done < /proc/self/mountinfo; exit 1"
    )
    subprocess.run(command(*declared, "action.json"), cwd=folder, env=CLEAN_ENVIRONMENT, check=True, timeout=60)
    # The interpreter's own packages are hidden by an empty folder.
    hidden = os.path.realpath(f"{os.path.dirname(os.__file__)}/site-packages")
    own = {"/", "/proc", "/tmp", "/action/work", "/action/work/in", hidden}
    seen = {*outcome(folder)["diagnostics"].split()} - own
    bound = {os.path.realpath(path) for path in json.loads(told.stdout)["bound"]}
    inner = {path for path in bound if any(path.startswith(other + "/") for other in bound)}
    assert {path for path in seen if not path.startswith("/dev/")} == bound - inner
    assert str(tmp_path / "package") in seen


def test_answers_carry_the_number_and_what_it_took(talk: Talk) -> None:
    folder = talk.ask(7, "exit 0")
    answer = talk.answer()
    assert (answer["requestId"], answer["exitCode"], answer["output"]) == (7, 0, "")
    assert set(answer["usage"]) == {"wall_s", "user_s", "sys_s", "max_rss_kb"}
    assert answer["usage"]["wall_s"] > 0
    assert outcome(folder) == {"outcome": "ok", "stage": "run"}


def test_requests_run_side_by_side(talk: Talk) -> None:
    """The quick one is answered first though it was asked for last."""
    talk.ask(1, "sleep 1")
    talk.ask(2, "exit 0")
    assert [talk.answer()["requestId"] for _ in range(2)] == [2, 1]


def test_several_requests_in_one_write_and_one_in_two(talk: Talk) -> None:
    folders = [prepare(talk.folder / str(number), "exit 0") for number in range(4)]
    lines = [json.dumps({"requestId": n, "sandboxDir": str(folder)}) for n, folder in enumerate(folders)]
    talk.say("\n\n".join(lines[:3]))
    assert talk.process.stdin is not None
    os.write(talk.process.stdin.fileno(), lines[3][:20].encode())
    time.sleep(0.1)
    talk.say(lines[3][20:])
    assert {talk.answer()["requestId"] for _ in range(4)} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("script", "expected", "reason"),
    [
        ("exit 3", "run-failed", "exit code 3"),
        ("kill -SEGV $$", "crashed", "SIGSEGV"),
        ("kill -KILL $$", "crashed", "SIGKILL"),
        # The action itself, from below.
        ("kill -KILL $PPID; sleep 5", "crashed", "SIGKILL"),
        ("kill -ABRT $PPID; sleep 5", "crashed", "SIGABRT"),
        ("kill -STOP $PPID; sleep 600", "timed-out", "no answer within"),
        ("trap '' HUP INT TERM; sleep 600", "timed-out", "no answer within"),
    ],
)
def test_ends(talk: Talk, script: str, expected: str, reason: str) -> None:
    folder = talk.ask(1, script, options=("--timeout-s", "1.5"))
    started = time.monotonic()
    assert talk.answer()["exitCode"] == 0
    assert time.monotonic() - started < 60
    assert outcome(folder)["outcome"] == expected
    assert reason in outcome(folder)["reason"]
    second = talk.ask(2, "exit 0")
    talk.answer()
    assert outcome(second)["outcome"] == "ok"


def test_what_is_left_is_ended(talk: Talk) -> None:
    """A process in a session of its own, without a parent: in the answer's time it is gone."""
    folder = talk.ask(1, "setsid sh -c 'while true; do date > alive; sleep 0.05; done' & sleep 0.3")
    talk.answer()
    assert outcome(folder)["outcome"] == "ok"
    (folder / "alive").unlink(missing_ok=True)
    time.sleep(0.3)
    assert not (folder / "alive").exists()


@pytest.mark.parametrize(
    "odd", ["rm -rf $PWD/..?* outcome.json; rm -rf in out log.txt", "mkdir outcome.json", "mkfifo outcome.json"]
)
def test_spoilt_folders_do_not_end_the_worker(talk: Talk, odd: str) -> None:
    talk.ask(1, odd)
    assert talk.answer()["requestId"] == 1
    second = talk.ask(2, "exit 0")
    talk.answer()
    assert outcome(second)["outcome"] == "ok"


def test_end_of_requests_ends_everything(talk: Talk) -> None:
    talk.ask(1, "while true; do date > alive; sleep 0.05; done")
    assert talk.process.stdin is not None
    until = time.monotonic() + 120
    while not (talk.folder / "1" / "alive").exists() and time.monotonic() < until:
        time.sleep(0.05)
    talk.process.stdin.close()
    assert talk.process.wait(timeout=120) == 0
    talk.process.stdin = None
    (talk.folder / "1" / "alive").unlink()
    time.sleep(0.3)
    assert not (talk.folder / "1" / "alive").exists()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_killing_the_worker_ends_everything(talk: Talk, how: signal.Signals) -> None:
    talk.ask(1, "while true; do date > alive; sleep 0.05; done")
    alive = talk.folder / "1" / "alive"
    until = time.monotonic() + 120
    while not alive.exists() and time.monotonic() < until:
        time.sleep(0.05)
    talk.process.send_signal(how)
    talk.process.wait(timeout=120)
    time.sleep(0.5)
    with contextlib.suppress(FileNotFoundError):
        alive.unlink()
    time.sleep(0.3)
    assert not alive.exists()


def several(talk: Talk, script: str, number: int, options: Sequence[str] = ()) -> Path:
    """Ask for several actions, of which the first one runs."""
    return talk.ask(1, script, options=[*options, "--actions", str(number)])


def proceed(talk: Talk, folder: Path, script: str = "exit 0") -> None:
    """Have the process go on with another script."""
    (folder / "outcome.json").unlink()
    # The folder itself stays: it is mounted.
    (folder / "in" / "kernel").unlink()
    again = prepare(talk.folder / "new", script)
    os.rename(again / "in" / "kernel", folder / "in" / "kernel")
    os.rename(again / "action.json", folder / "action.json")
    again.joinpath("in").rmdir()
    talk.say(WorkRequest(request_id=1, proceed=True).to_line().decode())


def test_several_actions_run_in_one_process(talk: Talk) -> None:
    """Each has an answer, a log, an outcome and times of its own; a failure ends the process."""
    folder = several(talk, "echo first; exit 0", 4)
    for script, word, said in (
        ("sleep 0.2; exit 0", "ok", ""),
        ("echo third; exit 1", "ok", ""),
        ("", "run-failed", "third\n"),
    ):
        answer = WorkResponse.from_line(json.dumps(talk.answer()).encode())
        assert (answer.request_id, answer.more, answer.trouble) == (1, word == "ok", "")
        assert answer.usage["wall_s"] < 60
        assert answer.usage["user_s"] < 0.2
        assert (outcome(folder)["outcome"], outcome(folder).get("diagnostics", "")) == (word, said)
        if script:
            proceed(talk, folder, script)


def test_last_of_several_actions_ends_the_process(talk: Talk) -> None:
    folder = several(talk, "exit 0", 2)
    assert talk.answer()["more"]
    proceed(talk, folder)
    assert "more" not in talk.answer()
    assert outcome(folder)["outcome"] == "ok"


@pytest.mark.parametrize("damage", ["absent", "cut", "pipe"])
def test_damaged_next_request_ends_the_process(talk: Talk, damage: str) -> None:
    folder = several(talk, "exit 0", 2)
    assert talk.answer()["more"]
    (folder / "action.json").unlink()
    if damage == "pipe":
        os.mkfifo(folder / "action.json")
    elif damage == "cut":
        (folder / "action.json").write_text("{")
    talk.say(WorkRequest(request_id=1, proceed=True).to_line().decode())
    assert "more" not in talk.answer()
    talk.ask(2, "exit 0")
    assert talk.answer()["requestId"] == 2


def test_cancelled_process_is_answered_once(talk: Talk) -> None:
    several(talk, "exit 0", 3)
    assert talk.answer()["more"]
    for number in (77, 1, 1):
        talk.say(WorkRequest(request_id=number, cancel=True).to_line().decode())
    answer = talk.answer()
    assert (answer["requestId"], "more" in answer) == (1, False)
    talk.say(WorkRequest(request_id=1, proceed=True).to_line().decode())
    talk.ask(2, "exit 0")
    assert talk.answer()["requestId"] == 2


def test_process_that_waits_has_no_time_limit(talk: Talk) -> None:
    folder = several(talk, "exit 0", 2, options=["--timeout-s", "1"])
    assert talk.answer()["more"]
    time.sleep(2.5)
    proceed(talk, folder)
    assert "more" not in talk.answer()
    assert outcome(folder)["outcome"] == "ok"


def test_end_of_requests_ends_a_process_that_waits(talk: Talk) -> None:
    several(talk, "exit 0", 2)
    assert talk.answer()["more"]
    assert talk.process.stdin is not None
    talk.process.stdin.close()
    assert talk.process.wait(timeout=120) == 0
    talk.process.stdin = None


#: Computes half of the time, as on a machine with other load: fifteen times four ticks of CPU time, 40 ms.
BUSY = """\
next=0
while next=$((next + 4)); test $next -le 60
do
    until read -r _ _ _ _ _ _ _ _ _ _ _ _ _ own _ < /proc/self/stat; test $own -ge $next
    do at=0; while test $at -lt 2000; do at=$((at + 1)); done; done
    sleep 0.04
done
"""


def test_an_action_without_a_whole_cpu_goes_on(talk: Talk) -> None:
    folder = talk.ask(1, BUSY, options=["--timeout-s", "1"])
    assert talk.answer()["usage"]["wall_s"] > 1
    assert outcome(folder) == {"outcome": "ok", "stage": "run"}


def test_where_a_late_action_was_is_said(talk: Talk) -> None:
    script = 'trap \'echo "2.\tRunning pass \\"licm<x>\\" on loop \\"a\\""; exit 1\' ABRT; while :; do sleep 0.02; done'
    folder = talk.ask(1, script, options=["--timeout-s", "0.5"])
    assert talk.answer()["exitCode"] == 0
    found = outcome(folder)
    assert (found["outcome"], found["stage"]) == ("timed-out", "run")
    assert found["reason"] == 'no answer within 0.5 s (--timeout), in pass "licm<x>" on loop "a"'
    assert re.search(r'File "mlir_matrix/actions/runtime/driver.py", line \d+ in execute', found["diagnostics"]), (
        "the stack of the tool that waits"
    )


def test_the_pass_that_a_late_program_of_llvm_ran_is_named(environments: Any, tmp_path: Path) -> None:
    lines = [f"%a{n + 1} = fadd float %a{n}, %a0\n%b{n} = fmul float %a{n}, %a{n + 1}" for n in range(200_000)]
    text = "\n".join(["define float @f(float %a0) {", *lines, "ret float %b199999", "}"])
    (root,) = environments.require("codegen").roots(environments.packages)
    worker = Talk(tmp_path, prefixes=[f"22={root}"])
    request = {
        "tool": "command", "stage": "codegen", "params": {"command": ["llc", "-O3", "${ir}", "-o", "${out}"]},
        "inputs": {"ir": "in/kernel.ll"}, "outputs": {"out": "out/kernel.s"},
    }  # fmt: skip
    folder = prepare(tmp_path / "1", "", **request)
    (folder / "in/kernel.ll").write_text(text)
    worker.say(json.dumps({"requestId": 1, "sandboxDir": str(folder), "arguments": ["--timeout-s", "0.7"]}))
    assert worker.answer()["exitCode"] == 0
    worker.end()
    assert outcome(folder)["outcome"] == "timed-out", outcome(folder)
    assert re.search(r", in pass '.+' on function '@f'$", outcome(folder)["reason"]), outcome(folder)


def test_time_limits_are_those_of_each_action(talk: Talk) -> None:
    """The second one does not get less because of the first."""
    folder = several(talk, "sleep 3; exit 0", 3, options=["--timeout-s", "5"])
    for script in ("sleep 3; exit 0", "kill -STOP $$"):
        assert talk.answer()["more"]
        proceed(talk, folder, script)
    assert "more" not in talk.answer()
    assert outcome(folder)["reason"] == "no answer within 5 s (--timeout)"


#: What becomes of a request's file, and what is said of it.
DAMAGE = {
    "absent": ("", "the machine failed: cannot start the action: No such file or directory"),
    "cut": ('{"stage": "ru', "internal error: the request is damaged: JSONDecodeError"),
    "empty": ("{}", "internal error: the request is damaged: KeyError: 'stage'"),
    "number": ("1", "internal error: the request is damaged: TypeError"),
    "pipe": ("pipe", "the machine failed: cannot start the action: is not a plain file"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_request_is_answered(talk: Talk, damage: str) -> None:
    content, said = DAMAGE[damage]
    folder = prepare(talk.folder / "1", "exit 0")
    (folder / "action.json").unlink()
    if content == "pipe":
        os.mkfifo(folder / "action.json")
    elif content:
        (folder / "action.json").write_text(content)
    talk.say(json.dumps({"requestId": 2, "sandboxDir": str(folder), "arguments": []}))
    answer = talk.answer()
    assert (answer["requestId"], answer["exitCode"], answer.get("more")) == (2, 1, None)
    assert answer["output"].startswith(said)
    talk.ask(3, "exit 0")
    assert talk.answer()["requestId"] == 3


@pytest.mark.parametrize("arguments", [["--timeout-s", "soon"], ["--unknown"], 3, ["{"], ["@nothing"], ["{}"]], ids=str)
def test_damaged_arguments_are_answered(talk: Talk, arguments: Any) -> None:
    folder = prepare(talk.folder / "1", "exit 0")
    talk.say(json.dumps({"requestId": 3, "sandboxDir": str(folder), "arguments": arguments}))
    answer = talk.answer()
    assert (answer["requestId"], answer["exitCode"]) == (3, 1)


@pytest.mark.parametrize("line", ["no", "3", '["x"]', "{"])
def test_a_line_that_is_no_request_ends_the_worker_with_a_sentence(tmp_path: Path, line: str) -> None:
    done = subprocess.run(
        command("--persistent_worker"), input=f"{line}\n", cwd=tmp_path, env=CLEAN_ENVIRONMENT, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("internal error: a request is not a JSON object: ")
    assert len(done.stderr.splitlines()) == 1


FORGED = {
    "text": b"x", "few": b"[1]", "words": b'["a", 2, 3]', "endless": b"[1e999, 1, 1]", "nothing": b"[NaN, 1, 1]",
}  # fmt: skip
#: The tool of a catalog that writes where its process reports that it waits, at once or while it waits.
FORGER = """
import os, socket, threading, time
def run(action):
    for number in range(3, 64):
        try: found = socket.socket(fileno=os.dup(number)).family == socket.AF_UNIX
        except OSError: continue
        if found: break
    def write(): time.sleep(SECONDS); os.write(number, FORGED); time.sleep(60)
    threading.Thread(target=write).start() if SECONDS else os.write(number, FORGED)
"""


@pytest.mark.parametrize("seconds", [0, 0.3], ids=["at once", "while it waits"])
@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_report_ends_its_process_alone(talk: Talk, forged: str, seconds: float) -> None:
    folder = talk.folder / "1"
    request = {"tool": "python_file", "stage": "lower", "params": {"tool": "tool.py"}}
    prepare(folder, "", **request, inputs={"tool": "in/tool.py"})
    tool = FORGER.replace("SECONDS", str(seconds)).replace("FORGED", repr(FORGED[forged]))
    (folder / "in/tool.py").write_text(tool)
    arguments = ["--actions", "2"]
    talk.say(WorkRequest(request_id=1, folder=str(folder), arguments=arguments).to_line().decode())
    if seconds:
        assert talk.answer()["more"]
    assert "more" not in talk.answer()
    talk.ask(2, "exit 0")
    assert talk.answer()["requestId"] == 2


def test_memory_is_limited(talk: Talk) -> None:
    """The limit goes to what the action starts, too, and cannot be lifted there."""
    folder = talk.ask(1, "ulimit -d; ulimit -d unlimited; ulimit -d; exit 1", options=("--memory-mb", "100"))
    talk.answer()
    # KiB, above what the child was forked with.
    assert 102_400 <= int(outcome(folder)["diagnostics"].split()[0]) < 102_400 + 65_536
    assert "unlimited" not in outcome(folder)["diagnostics"].replace("ulimit -d unlimited", "").split("\n")


def test_a_layout_that_gets_no_process_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sent it is told, in the words that say that nobody may keep it."""

    def fork() -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", fork)
    (tmp_path / "made").mkdir()
    layout = {
        "request": {"tool": "judge", "stage": "judge", "params": {}, "inputs": {}, "outputs": {}},
        "files": {}, "upstream": [], "outputs": {}, "result": "made/result.json", "usage": "made/usage.json",
        "building": False, "timeout_s": 5, "memory_mb": 64,
    }  # fmt: skip
    worker = Worker(replies=os.open(os.devnull, os.O_WRONLY), spaces=None, alone=False)
    worker.perform(WorkRequest(folder=str(tmp_path), arguments=[json.dumps(layout)]))
    reason, told = worker.trouble.splitlines()
    assert reason == "the machine failed: cannot start the action: Resource temporarily unavailable"
    assert json.loads(told.removeprefix(OUTCOME_MARK))["outcome"] == "infra-error"
    assert list((tmp_path / "made").iterdir()) == []


def test_a_device_that_nobody_grants(talk: Talk) -> None:
    """A request alone opens none, whoever wrote it, and nothing is kept of that."""
    folder = talk.ask(1, "exit 0", params={"arguments": [], "results": [], "devices": ["/dev/tty", "/dev/nvidia*"]})
    answer = talk.answer()
    assert answer["exitCode"] == 1
    assert answer["output"].endswith("/dev/tty and /dev/nvidia*: not granted by matrix run --device")
    assert not (folder / "outcome.json").exists()


#: The tool of a catalog that says what its process has imported before, and what it can import itself.
LOOK = """
import json, sys
def run(action):
    before = [name for name in ("thing", "other", "antigravity") if name in sys.modules]
    import thing
    found = {"before": before, "called": getattr(thing, "called", False), "own": thing.first == sys.argv[0]}
    open(action.outputs["out"], "w").write(json.dumps(found))
"""
PRELOADED = {"before": ["thing"], "called": True, "own": True}
COLD = {"before": [], "called": False, "own": True}


@pytest.mark.parametrize(
    ("words", "expected"), [([], PRELOADED), (["--foreign"], COLD)], ids=["ours", "foreign"]
)  # fmt: skip
def test_what_a_worker_imports(tmp_path: Path, words: list[str], expected: Any) -> None:
    """Of packages alone, and nothing where another catalog chose one: that its actions import."""
    site, made = tmp_path / "site", tmp_path / "bytecode"
    site.mkdir()
    (site / "thing.py").write_text(
        "import sys\nfirst = sys.argv[0]\ndef warm():\n    global called\n    called = True\n"
    )
    (site / "thing-1.0.dist-info").mkdir()
    (site / "thing-1.0.dist-info/RECORD").write_text("thing.py,,\n")
    folder = prepare(
        tmp_path / "1", "", tool="python_file", stage="lower", params={"tool": "tool.py"}, inputs={"tool": "in/tool.py"},
        outputs={"out": "out/found"},
    )  # fmt: skip
    (folder / "in/tool.py").write_text(LOOK)
    modules = [word for name in ("thing:warm", "antigravity", "absent") for word in ("--module", name)]
    python = [*command()[:4], *bytecode.options(made), str(BOOTSTRAP), "--site", str(site)]
    request = json.dumps({"requestId": 1, "sandboxDir": str(folder)})
    process = subprocess.Popen(
        [*python, *words, *modules, "--persistent_worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=tmp_path, env=CLEAN_ENVIRONMENT,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(request + "\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["exitCode"] == 0
    process.communicate()
    assert outcome(folder) == {"outcome": "ok", "stage": "lower"}
    assert json.loads((folder / "out/found").read_text()) == expected
    # Whoever cannot write bytecode finds it.
    assert [path.name.split(".")[0] for path in made.glob(f"**{site}/*.pyc")] == ["thing"]


def test_an_unknown_tool_is_an_internal_error(talk: Talk) -> None:
    folder = talk.ask(1, "", tool="nothing")
    talk.answer()
    assert outcome(folder)["outcome"] == "infra-error"
    assert "internal error: the tool nothing raised ModuleNotFoundError" in outcome(folder)["reason"]


def test_a_plain_command_does_the_same(tmp_path: Path) -> None:
    """Without a worker: the action in the current folder."""
    for number, (script, expected) in enumerate(
        (("exit 0", "ok"), ("kill -SEGV $$", "crashed"), ("sleep 60", "timed-out"))
    ):
        folder = prepare(tmp_path / str(number), script)
        words = command("action.json", "--timeout-s", "1.5")
        subprocess.run(words, cwd=folder, env=CLEAN_ENVIRONMENT, check=True, timeout=60)
        assert outcome(folder)["outcome"] == expected


def test_outcomes_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    texts = set()
    for number in range(2):
        folder = prepare(tmp_path / str(number), "echo word; echo 0x7ffe12345678 >&2; exit 3")
        subprocess.run(command("action.json"), cwd=folder, env=CLEAN_ENVIRONMENT, check=True, timeout=60)
        texts.add((folder / "outcome.json").read_bytes())
    assert len(texts) == 1


def test_a_damaged_package_is_named_before_anything_runs(tmp_path: Path) -> None:
    site = tmp_path / "thing-1.0-cp311-abc"
    (site / "thing-1.0.dist-info").mkdir(parents=True)
    (site / "thing-1.0.dist-info" / "RECORD").write_text("thing.py,sha256=x,10\n")
    done = subprocess.run(
        [*command()[:5], "--site", str(site), "--persistent_worker"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert f"{site} is damaged: thing.py is missing" in done.stderr
    assert "Traceback" not in done.stderr
