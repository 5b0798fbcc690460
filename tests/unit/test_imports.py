"""Imports inside functions are only of modules that pyproject.toml lists as heavy; modules import each other in no circle."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tools" / "mlir_matrix"


def heavy_imports() -> tuple[str, ...]:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mlir-matrix"]["heavy-imports"]
    return tuple(found)


def modules() -> dict[str, Path]:
    paths = {path: path.relative_to(PACKAGE.parent).with_suffix("") for path in sorted(PACKAGE.rglob("*.py"))}
    return {".".join(short.parts).removesuffix(".__init__"): path for path, short in paths.items()}


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules, or names of a module, that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    else:
        assert node.level == 0, "relative"
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def statements(path: Path) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """The import statements of a file that run, and whether one is inside a function."""
    waiting: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text()), False)]
    while waiting:
        node, inside = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, inside
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        waiting += [(child, inside) for child in ast.iter_child_nodes(node)]


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
    known = modules()
    graph: dict[str, set[str]] = {}
    for module, path in known.items():
        names = {name for node, _ in statements(path) for name in imported(node)}
        graph[module] = {name if name in known else name.rpartition(".")[0] for name in names} & known.keys()
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {error.args[1]}")
