"""One name, one thing: a public class has a name that no other class of the package has."""

from __future__ import annotations

import ast

from support.imports import modules


def test_public_class_names_are_unique_in_the_package() -> None:
    found: dict[str, list[str]] = {}
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(module)
    assert {name: homes for name, homes in found.items() if len(homes) > 1} == {}
