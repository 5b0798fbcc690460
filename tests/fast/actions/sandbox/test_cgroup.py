"""What a container refused, as its control group counts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.actions.runtime.child import because, failure
from mlir_matrix.actions.sandbox import cgroup
from mlir_matrix.actions.sandbox.cgroup import ContainerCounters


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cgroup, "_KILLS", ((str(tmp_path / "none"), str(tmp_path / "memory")), "oom_kill"))
    monkeypatch.setattr(cgroup, "_REFUSALS", ((str(tmp_path / "pids"),), "max"))
    monkeypatch.setattr(cgroup, "_MOST", (str(tmp_path / "most"),))
    (tmp_path / "memory").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    (tmp_path / "pids").write_text("max 1\n")
    (tmp_path / "most").write_text("64\n")
    return tmp_path


def test_only_what_is_new_counts(group: Path) -> None:
    found = ContainerCounters()
    assert found.refused(100) == ""
    (group / "memory").write_text("low 0\noom 2\noom_kill 4\n")
    assert found.refused(100) == "out of memory: the processes that it started exceeded the limit of 100 MiB"
    assert found.refused(100) == ""
    (group / "pids").write_text("max 7\n")
    assert found.refused(100) == "it started more processes than the limit of 64"
    assert found.refused(100) == ""


@pytest.mark.parametrize("text", ["", "oom_kill", "oom_kill x\n", "\n\n"])
def test_files_that_say_nothing(group: Path, text: str) -> None:
    (group / "memory").write_text(text)
    (group / "pids").unlink()
    found = ContainerCounters()
    assert found.refused(1) == ""


def test_what_becomes_of_an_outcome() -> None:
    killed = {"outcome": "crashed", "stage": "import", "reason": "SIGKILL", "diagnostics": "d", "signal": "SIGKILL"}
    assert because(killed, "out of memory") == failure("import", "import-failed", "out of memory", "d", cache="no")
    late = failure("run", "timed-out", "no answer within 1 s", "d")
    assert because(late, "too many") == failure("run", "timed-out", "too many; no answer within 1 s", "d", cache="no")
    fault = {**killed, "signal": "SIGSEGV", "reason": "SIGSEGV while at stage import"}
    assert because(fault, "too many")["signal"] == "SIGSEGV"
