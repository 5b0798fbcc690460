"""Python files of catalogs' tools: what they get, and whose fault each failure is."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

HEAD = "from mlir_matrix.actions.api import ActionFailed, under_test\n"


@pytest.fixture
def perform(environments: Any, tmp_path: Path) -> Any:
    numbers = count()

    def call(text: str | bytes, **params: Any) -> Any:
        return environments.perform(
            "numpy",
            "python_file",
            tmp_path / str(next(numbers)),
            params={"tool": "recipes/steps/mine/tool.py", **params},
            inputs={"tool": text, "ir": "some IR"},
            outputs={"out": "out/made.txt"},
        )

    return call


def test_it_gets_what_every_tool_gets(perform: Any) -> None:
    done = perform(
        "import dataclasses, pathlib\n"
        "@dataclasses.dataclass\nclass Held:\n    text: str\n"
        "def run(action):\n"
        "    print('goes to the log')\n"
        "    held = Held(pathlib.Path(action.inputs['ir']).read_text())\n"
        "    made = f\"{held.text} {action.params['parameters']['level']} {sorted(action.inputs)} {sorted(action.outputs)}\"\n"
        "    pathlib.Path(action.outputs['out']).write_text(made)\n",
        parameters={"level": 3},
    )
    assert done.ok, done.outcome
    assert done.text("out") == "some IR 3 ['ir'] ['out']"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def run(action:\n", "does not parse: '(' was never closed (line 1)"),
        ("def ran(action): ...\n", "defines no function run(action)"),
        ("run = 3\n", "defines no function run(action)"),
        ("import pathlib\n\nimport nowhere.to_be\n", "raised ModuleNotFoundError: No module named 'nowhere' (line 3)"),
        ("def run(action):\n    helper()\n\ndef helper():\n    {}['a']\n", "raised KeyError: 'a' (line 5)"),
        ("def run(action): ...\n", "did not write out"),
        ("def run(action):\n    open('/usr/mine', 'w')\n", "raised OSError: "),
        ("import sys\ndef run(action):\n    sys.exit(3)\n", "raised SystemExit: 3 (line 3)"),
        # The tool's own call does not fit the interface.
        (HEAD + "def run(action):\n    with under_test():\n        len()\n", "raised TypeError"),
        (b"\xff\xfe", "does not parse: (unicode error)"),
        (b"x = \x00", "does not parse: source code string cannot contain null bytes"),
    ],
)
def test_mistakes_of_the_tool_are_no_verdicts(perform: Any, text: str | bytes, reason: str) -> None:
    outcome = perform(text).outcome
    assert outcome["outcome"] == "infra-error"
    assert outcome["reason"].startswith(f"the tool recipes/steps/mine/tool.py {reason}")


def test_what_is_under_test_is_a_verdict(perform: Any) -> None:
    failed = perform(
        HEAD + "def run(action):\n    raise ActionFailed('no such dialect', diagnostics='at 1:1')\n"
    ).outcome
    assert (failed["outcome"], failed["reason"], failed["diagnostics"]) == ("lower-failed", "no such dialect", "at 1:1")
    raised = perform(HEAD + "def run(action):\n    with under_test():\n        int('x')\n").outcome
    assert raised["outcome"] == "lower-failed"
    killed = perform("import os\ndef run(action):\n    os.kill(os.getpid(), 11)\n").outcome
    assert (killed["outcome"], killed["signal"]) == ("crashed", "SIGSEGV")


def test_processes_that_it_leaves_end_with_it(perform: Any, tmp_path: Path) -> None:
    done = perform(
        "import subprocess, sys\n"
        "def run(action):\n"
        "    code = 'import time\\nwhile True: time.sleep(60)'\n"
        "    child = subprocess.Popen([sys.executable, '-c', code], start_new_session=True)\n"
        "    open(action.outputs['out'], 'w').write('made')\n"
    )
    assert done.ok, done.outcome
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"while True: time.sleep(60)" in _read(path)]
    assert left == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            '"builtin.module"() ({\\n  "a.b"() : () -> ()\\n}) : () -> ()\\n',
            "left 1 operation that kind k does not have: a.b",
        ),
        ("module {\\n  a.b\\n}\\n", ""),
    ],
    ids=["generic", "custom"],
)
def test_without_mlir_operations_in_generic_form_are_checked(perform: Any, text: str, reason: str) -> None:
    source = f"import pathlib\ndef run(action):\n    pathlib.Path(action.outputs['out']).write_text('{text}')\n"
    done = perform(source, contract={"kind": "k", "allow": ["func.*"], "main": "tensor"})
    assert done.outcome.get("reason", "") == reason
