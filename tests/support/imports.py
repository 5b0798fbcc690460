"""What the modules of the package import, as Python's parser reads it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "tools" / "mlir_matrix"


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


def graph() -> dict[str, set[str]]:
    """The modules of the package that each one imports when it runs."""
    known = modules()
    found: dict[str, set[str]] = {}
    for module, path in known.items():
        names = {name for node, _ in statements(path) for name in imported(node)}
        found[module] = {name if name in known else name.rpartition(".")[0] for name in names} & known.keys()
    return found
