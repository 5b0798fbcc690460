"""The answer of ``matrix ir`` lasts while fingerprints cover all files that it depends on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mlir_matrix.ir import levels
from mlir_matrix.plan.graph import File, Graph
from mlir_matrix.plan.request import Limits


@pytest.mark.parametrize(("path", "lasting"), [("matrix/workloads/w/w.py", True), ("sources/a/w.py", False)])
def test_a_source_outside_the_catalogs_folders(path: str, lasting: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph()
    graph.add(
        "import/w", tool="t", stage="import", environment="e", params={}, inputs={"x": File(0, path)}, outputs={"ir": "x"}
    )  # fmt: skip
    plan = SimpleNamespace(graph=graph, needed_by=lambda _: list(graph.actions))
    monkeypatch.setattr(levels, "select_tests", lambda *_: [SimpleNamespace(id="w")])
    monkeypatch.setattr(levels, "plan_tests", lambda *_: plan)
    monkeypatch.setattr(levels, "read_levels", lambda *_: ([], ""))
    session: Any = SimpleNamespace(environments=lambda _: {}, catalog=SimpleNamespace(over=()))
    found = levels.find_levels(session, "w", Limits(jobs=1), after=None, before=None, every=True)
    assert found.lasting == lasting
