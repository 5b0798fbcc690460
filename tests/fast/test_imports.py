"""Imports inside functions are only of modules that pyproject.toml lists as heavy; modules import each other in no circle."""

from __future__ import annotations

import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from support.imports import graph, imported, modules, statements

ROOT = Path(__file__).parents[2]


def heavy_imports() -> tuple[str, ...]:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mlir-matrix"]["heavy-imports"]
    return tuple(found)


def is_in(name: str, parents: tuple[str, ...]) -> bool:
    return any(name == parent or name.startswith(f"{parent}.") for parent in parents)


def test_functions_import_only_what_is_heavy() -> None:
    heavy = heavy_imports()
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {name}"
        for path in modules().values()
        for node, inside in statements(path)
        if inside
        for name in imported(node)
        if not is_in(name, heavy)
    ]
    assert not wrong, "not among heavy-imports in pyproject.toml"


def test_modules_import_each_other_in_no_circle() -> None:
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {error.args[1]}")
