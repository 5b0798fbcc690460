"""An action's key: another one for whatever shows in the output, and the same for what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.execute.keys import ACTIONS_FOLDER, Read, action_key, cpu_digest, input_names, request, tool_digest
from mlir_matrix.plan.graph import Action, File, Graph, Produced

BASE: dict[str, Any] = {
    "tool": "passes", "stage": "lower", "environment": "mlir", "params": {"passes": "cse"}, "inputs": {},
    "outputs": {"ir": "ir.mlir"}, "native": False,
}  # fmt: skip
READS = (Read("ir", "in/ir.mlir", "1" * 64, None), Read("schedule", "in/schedule.mlir", "2" * 64, Path("/a/b")))


def action(label: str = "a", **changes: Any) -> Action:
    graph = Graph()
    return graph.actions[graph.add(label, **{**BASE, **changes})]


def key(reads: tuple[Read, ...] = READS, environment: str = "e", **changes: Any) -> str:
    return action_key(action(**changes), reads, environment=environment)


@pytest.mark.parametrize(
    "changes",
    [
        {"tool": "check"}, {"stage": "codegen"}, {"environment": "f"}, {"params": {"passes": "cse "}}, {"native": True},
        {"outputs": {"ir": "other.mlir"}}, {"outputs": {"other": "ir.mlir"}}, {"outputs": {}},
        {"reads": READS[:1]}, {"reads": READS[::-1]}, {"reads": (READS[0]._replace(digest="3" * 64), READS[1])},
        {"reads": (READS[0]._replace(path="in/other"), READS[1])}, {"reads": (READS[0]._replace(name="jr"), READS[1])},
    ],
)  # fmt: skip
def test_what_shows_changes_the_key(changes: dict[str, Any]) -> None:
    assert key(**changes) != key()


def test_what_does_not_show_does_not() -> None:
    """What it is called, where its files lie, what its environment is called."""
    assert key(label="b") == key()
    assert key((READS[0], READS[1]._replace(file=Path("/elsewhere")))) == key()
    assert action_key(action(), READS, environment="e") == key()
    assert len(key()) == 64


def test_a_tools_code_counts_with_what_it_imports() -> None:
    """The judge's digest covers the census, the linker's does not; every tool's covers the worker."""
    assert tool_digest("judge") != tool_digest("link") != tool_digest("run")
    assert tool_digest("nothing") != tool_digest("judge")
    assert tool_digest("judge") == tool_digest("judge")


def test_every_module_that_a_tool_imports_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing any sibling that is imported, also indirectly or inside a function, changes the digest."""
    import shutil

    from mlir_matrix.execute import keys

    copy = tmp_path / "actions"
    shutil.copytree(ACTIONS_FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))

    def digest(tool: str) -> str:
        keys._imports.cache_clear()
        keys.tool_digest.cache_clear()
        return keys.tool_digest(tool)

    monkeypatch.setattr(keys, "ACTIONS_FOLDER", copy)
    try:
        before = digest("judge"), digest("link")
        for module in ("census", "dtypes", "worker", "isolation", "intact"):
            path = copy / f"{module}.py"
            path.write_text(path.read_text() + "\n# changed\n")
            after = digest("judge"), digest("link")
            assert after[0] != before[0], module
            assert (after[1] != before[1]) == (module in ("worker", "isolation", "intact")), module
            before = after
    finally:
        monkeypatch.undo()
        keys._imports.cache_clear()
        keys.tool_digest.cache_clear()


def test_cpu_is_the_same_each_time() -> None:
    first = cpu_digest()
    cpu_digest.cache_clear()
    assert cpu_digest() == first


def test_names_of_inputs() -> None:
    """Sources keep theirs, products take that of the input; two of one name do not meet."""
    graph = Graph()
    made = graph.add("made", **{**BASE, "outputs": {"ir": "linalg.mlir"}})
    inputs = {
        "ir": Produced(made, "ir"),
        "source": File(0, "matrix/workloads/a/jax.py"),
        "other": File(1, "b/jax.py"),
    }
    last = graph.add("last", **{**BASE, "inputs": inputs})
    names = input_names(graph.actions[last], graph)
    assert names == {"ir": "in/ir.mlir", "source": "in/jax.py", "other": "in/other-jax.py"}


def test_a_request_holds_no_absolute_path() -> None:
    document = request(action(), {"ir": "in/ir.mlir"})
    assert document == {
        "tool": "passes", "stage": "lower", "params": {"passes": "cse"}, "inputs": {"ir": "in/ir.mlir"},
        "outputs": {"ir": "out/ir.mlir"},
    }  # fmt: skip
