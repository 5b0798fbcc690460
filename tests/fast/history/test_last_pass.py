"""When a test was last as expected, and with what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.history.last_pass import last_passes
from mlir_matrix.history.spool import Spool
from mlir_matrix.results.cause_changes import named_by_changes
from mlir_matrix.results.causes import causes_of
from mlir_matrix.results.report.summary import print_summary
from mlir_matrix.results.results import Run
from mlir_matrix.run.what_changed import what_changed
from support.recordings import TIMES, recording, result


def test_the_last_run_in_which_each_test_passed(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for day, outcome in enumerate(("pass", "pass", "mismatch", "infra-error")):
        results = [result("a", outcome, pins={"llvm": str(day)}), result("b", environments={"mlir": f"{day}"})]
        spool.add(recording(results, day, commit=f"{day}" * 40))
    warnings: list[str] = []
    found = last_passes(tmp_path, ["jax/p/t/a", "jax/p/t/b", "jax/p/t/c"], warnings.append)
    assert found.keys() == {"jax/p/t/a", "jax/p/t/b"}
    first, second = found["jax/p/t/a"], found["jax/p/t/b"]
    assert (first.ended, first.pins, first.version) == (TIMES[1], {"llvm": "1"}, "1")
    assert (second.ended, second.environments) == (TIMES[3], {"mlir": "3"})
    assert first.outcome == "pass"
    assert first.catalogs[0]["commit"] == "1" * 40
    assert warnings == []


@pytest.mark.parametrize(("good", "words"), [("pass", "it passed on "), ("lower-failed", "it was as expected on ")])
def test_files_of_a_catalog_outside_git_may_have_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], good: str, words: str
) -> None:
    folder = tmp_path / "catalog"
    folder.mkdir()
    Spool(tmp_path / "state").add(recording([result("a", good, expected=True)]))
    bad = [result("a", "mismatch")]
    run = Run(results=bad, causes=causes_of(bad))
    about: Any = {"version": "1", "catalogs": [{"folder": str(folder)}]}
    run.causes = named_by_changes(bad, run.causes, what_changed(run, about, tmp_path / "state", print))
    assert run.causes[0]["changed"]["unknown"] == [str(folder)]
    print_summary(run, {})
    shown = capsys.readouterr().out
    assert f"since:  {words}" in shown
    assert f", changed: perhaps files of {folder} (git cannot tell)\n" in shown


def test_a_history_that_is_off_knows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATRIX_HISTORY", "off")
    assert last_passes(tmp_path, ["jax/p/t/a"], print) == {}
    assert list(tmp_path.iterdir()) == []
