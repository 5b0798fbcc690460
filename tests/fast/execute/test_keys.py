"""An action's key: another one for whatever shows in the output, and the same for what does not."""

from __future__ import annotations

import ast
import re
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.fingerprint import cpu_digest
from mlir_matrix.execute.keys import (
    ACTIONS_FOLDER,
    Read,
    action_key,
    imported,
    input_names,
    request,
    tool_digest,
    tool_modules,
)
from mlir_matrix.plan.graph import File, Graph, PlannedAction, Produced

BASE: dict[str, Any] = {
    "tool": "passes", "stage": "lower", "environment": "mlir", "params": {"passes": "cse"}, "inputs": {},
    "outputs": {"ir": "ir.mlir"}, "native": False,
}  # fmt: skip
READS = (Read("ir", "in/ir.mlir", "1" * 64, None), Read("schedule", "in/schedule.mlir", "2" * 64, Path("/a/b")))


def action(label: str = "a", **changes: Any) -> PlannedAction:
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


def test_types_of_parameters_are_in_no_key() -> None:
    """So that a new parameter of one tool redoes no other's actions; they must then hold nothing that runs."""
    modules = tool_modules("run")
    assert modules.keys() >= {"params"}
    del modules["params"]
    assert tool_digest("run") == digest_value(modules)
    body = ast.parse((ACTIONS_FOLDER / "params.py").read_text()).body[1:]
    assert {type(node) for node in body} == {ast.ImportFrom, ast.Assign, ast.ClassDef}
    fields = [each for node in body if isinstance(node, ast.ClassDef) for each in node.body]
    assert {type(each) for each in fields} == {ast.AnnAssign, ast.Expr}


def test_only_the_backend_that_is_used_counts() -> None:
    by_bindings, by_programs = (tool_modules("passes", backend).keys() for backend in ("bindings", "programs"))
    assert by_bindings - by_programs == {"mlir/by_bindings", "mlir/bindings"}
    assert by_programs - by_bindings == {"mlir/by_programs"}
    assert (
        len({action_key(action(params={"backend": name}), READS, environment="e") for name in ("bindings", "programs")})
        == 2
    )


def test_every_module_that_a_tool_imports_is_seen() -> None:
    """By every tool, also indirectly or inside a function: Python's own search finds no more."""
    tools = [file for file in sorted(ACTIONS_FOLDER.glob("tools/*.py")) if "\ndef run(action" in file.read_text()]
    names = ("contract", "runtime/bootstrap", "runtime/child", "runtime/worker", "sandbox/isolation")
    always = [ACTIONS_FOLDER / f"{name}.py" for name in names]
    for file in [*tools, *always]:
        finder = ModuleFinder(path=[str(ACTIONS_FOLDER.parents[1])])
        finder.run_script(str(file))
        found = {name for name in finder.modules if name.startswith("mlir_matrix.")}
        known = {
            f"mlir_matrix/actions/{name}".removesuffix("/__init__").replace("/", ".")
            for name in tool_modules(file.stem)
        }
        assert found <= known, file.stem
    assert len(tools) > 20, "of the tools"
    assert not {"numerics/census", "numerics/dtypes"} & tool_modules("link").keys(), "and not simply all modules"


def test_no_module_is_imported_by_a_name_that_is_made() -> None:
    """What nobody could find; but for the tool itself, by the worker."""
    for file in ACTIONS_FOLDER.rglob("*.py"):
        if file.stem not in ("child", "worker"):
            assert not re.search(r"""["']mlir_matrix\.""", file.read_text()), file.stem


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import mlir_matrix.actions.a, os, mlir_matrix.actions.b as c", "a b"),
        ("from mlir_matrix.actions import a as x, b", "a b"),
        ("from mlir_matrix.actions import (  # (why)\n    a as b,  # :)\n    c,\n)\n", "a c"),
        ("from mlir_matrix.actions.a import (\n    x,\n)\nfrom mlir_matrix.actions.b import y", "a/x b/y"),
        ("import os, \\\n    mlir_matrix.actions.a\nfrom \\\n  mlir_matrix.actions import b", "a b"),
        ("from . import a, b\nfrom .c import x\nfrom ..actions import d\nfrom ..other import e", "a b c/x d"),
        ("def f():\n    if True:\n        from mlir_matrix.actions import a\n\timport mlir_matrix.actions.b\n", "a b"),
        ('"""A text.\n\nfrom mlir_matrix.actions, which is a package\n"""\nfrom mlir_matrix.actions import a\n', "a"),
        ("from mlir_matrix import actions\nimport numpy\nfrom os import path\n", ""),
    ],
)
def test_every_form_of_import_is_read(text: str, names: str) -> None:
    assert set(imported(text)) - {""} == set(names.split())


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
