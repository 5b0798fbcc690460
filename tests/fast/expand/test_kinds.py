"""Contracts of kinds: with that of what they extend, by release, and with or without ``@main``."""

from __future__ import annotations

from typing import Any

import pytest

from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.kinds import contract_of
from mlir_matrix.expand.recipes import ResolvedStep, resolve_step

BASE = """\
ops: {allow: [linalg.*, func.*]}
types: {forbid: [memref]}
main: tensor
canonical:
  - {when: {llvm: ">=19"}, passes: cse}
  - {when: {llvm: "18"}, passes: "canonicalize,\\n  cse"}
"""
DERIVED = "extends: linalg\nops: {allow: [tosa.*], forbid: [linalg.generic]}\ntypes: {forbid: [vector]}\n"


@pytest.fixture
def made(tree: Any) -> Any:
    tree.write("recipes/kinds/linalg.yaml", f"description: d\nfile: l.mlir\n{BASE}")
    tree.write("recipes/kinds/tosa.yaml", f"description: d\nfile: t.mlir\n{DERIVED}")
    return tree.load()


def step_of(catalog: Any) -> ResolvedStep:
    found = resolve_step(catalog, "torch-to-tosa", Pins(catalog))
    assert isinstance(found, ResolvedStep)
    return found


def test_a_kind_has_what_it_extends(made: Any) -> None:
    assert contract_of(made, "tosa", step_of(made)) == {
        "kind": "tosa",
        "allow": ["linalg.*", "func.*", "tosa.*"],
        "forbid": ["linalg.generic"],
        "types": ["memref", "vector"],
        "main": "tensor",
        "canonical": ["canonicalize, cse"],
    }


def test_a_step_alone_needs_no_main(made: Any) -> None:
    found = contract_of(made, "linalg", step_of(made), alone=True)
    assert found is not None
    assert "main" not in found


def test_a_kind_without_promises_has_no_contract(made: Any) -> None:
    assert contract_of(made, "object", step_of(made)) is None


def test_a_circle_is_refused_and_ends(tree: Any) -> None:
    for name, base in (("linalg", "tosa"), ("tosa", "linalg")):
        tree.write(f"recipes/kinds/{name}.yaml", f"description: d\nfile: l.mlir\nextends: {base}\n")
    assert tree.errors() == [
        "recipes/kinds/linalg.yaml:3:1: a circle: linalg extends tosa extends linalg",
        "recipes/kinds/tosa.yaml:3:1: a circle: tosa extends linalg extends tosa",
    ]
