"""Write ``docs/kinds.md`` and ``docs/kinds.svg``: what kinds promise, which steps take and give them, what tests have of them.

``PYTHONPATH=tools:tests python -m support.kinds_page`` writes both files, and keeps the operations that tests had. With names of
tests, ``… -m support.kinds_page everything``, these run, up to the last step that gives MLIR, and their operations replace them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import Conditions, Kind
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.expand.kinds import lineage
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import open_session, plan_tests, select_tests
from mlir_matrix.site.kind_graph import draw

_HEADER = """\
# Kinds

What flows between steps, and what each kind promises: its [contract](recipes.md#contracts). A step with ↻ gives the kind that
it takes. `seen` are the operations of the kind in the suite `everything`, under the default pins, where this page was made.

![The kinds and the steps between them](kinds.svg)
"""
_MAIN = {
    "tensor": "takes and returns ranked tensors without an encoding",
    "memref": "takes and returns ranked memrefs with the identity layout",
    "vtensor": "takes and returns values of `!torch.vtensor`",
    "c-interface": "has the C interface `_mlir_ciface_main`",
}
#: The row with the operations of a kind.
SEEN = "| seen |"
DOCS = Path(__file__).parents[2] / "docs"


def picture(catalog: Catalog) -> str:
    """Return the graph of kinds and steps as SVG."""
    return draw({name: step.document.kinds() for name, step in catalog.steps.items()})


def page(catalog: Catalog, seen: Mapping[str, str]) -> str:
    """Return all kinds in Markdown; ``seen``: by kind, the row with the operations of tests."""
    parts = [_HEADER]
    for kind in catalog.kinds.values():
        rows = [("file", f"`{kind.document.file}`"), *_promises(catalog, kind), *_places(catalog, kind.name)]
        description = kind.document.description.strip()
        table = [f"| {name} | {text} |" for name, text in rows]
        table += [seen[kind.name]] if kind.name in seen else []
        parts.append("\n".join([f"## {kind.name}", "", description, "", "| | |", "|---|---|", *table, ""]))
    return "\n".join(parts)


def _promises(catalog: Catalog, kind: Entry[Kind]) -> Iterator[tuple[str, str]]:
    """Yield what a kind promises by itself, and what it extends."""
    document = kind.document
    if document.extends:
        yield "extends", " → ".join(f"[{entry.name}](#{entry.name})" for entry in lineage(catalog, kind.name)[-2::-1])
    if document.ops:
        allow, forbid = _codes(document.ops.allow), _codes(document.ops.forbid)
        parts = ["also"] if document.extends and allow else []
        if allow:
            parts.append(allow)
        if forbid:
            parts.append(f"none of {forbid}")
        yield "operations", " ".join(parts)
    if document.types.forbid:
        yield "types", f"none of {_codes(document.types.forbid)}"
    if document.main:
        yield "`@main`", _MAIN[document.main]
    for form in document.canonical:
        yield "canonical form", f"`{' '.join(form.passes.split())}` changes nothing ({_conditions(form)})"


def _codes(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _conditions(form: Conditions) -> str:
    ranges = [f"{name} {wanted}" for name, wanted in form.when.items()]
    return " and ".join([*ranges, *(f"{name} with {feature}" for name, feature in form.carries.items())])


def _places(catalog: Catalog, kind: str) -> Iterator[tuple[str, str]]:
    """Yield what emits, gives, takes and runs a kind."""
    steps = {name: entry.document.kinds() for name, entry in catalog.steps.items()}
    found = {
        "emitted by": [name for name, entry in catalog.frameworks.items() if kind in entry.document.emits],
        "given by": [
            name for name, given in steps.items() if any(kind == gives != takes for takes, gives in given.items())
        ],
        "taken by": [name for name, given in steps.items() if given.get(kind, kind) != kind],
        "kept by": [name for name, given in steps.items() if given.get(kind) == kind],
        "runs on": [
            name for name, entry in catalog.targets.items() if kind in entry.document.accepts and "+" not in name
        ],
    }
    yield from ((what, ", ".join(names)) for what, names in found.items() if names)


def known_rows(text: str) -> dict[str, str]:
    """Return the rows of a page with operations, by kind."""
    found, kind = {}, ""
    for line in text.splitlines():
        kind = line.removeprefix("## ") if line.startswith("## ") else kind
        if line.startswith(SEEN):
            found[kind] = line
    return found


def seen_rows(session: Session, names: Sequence[str]) -> dict[str, str]:
    """Execute what gives the kinds of tests; return the rows with their operations, by kind."""
    plan = plan_tests(session, select_tests(session, names))
    actions = plan.graph.actions
    held = {name: action.params["contract"]["kind"] for name, action in actions.items() if "contract" in action.params}
    needed = {source for name in held for source in plan.graph.needed_by(name)}
    graph = Graph({name: action for name, action in actions.items() if name in needed})
    done = run_graph(session, graph, limits=Limits(jobs=os.cpu_count() or 1))
    seen: dict[str, dict[str, set[str]]] = {}
    for name, kind in held.items():
        for operation in cast("dict[str, int]", done[name].result.metrics.get("operations", {})):
            dialect, _, rest = operation.partition(".")
            seen.setdefault(kind, {}).setdefault(dialect, set()).add(rest)
    rows = {
        kind: "; ".join(f"`{dialect}`: {', '.join(sorted(names))}" for dialect, names in sorted(found.items()))
        for kind, found in seen.items()
    }
    return {kind: f"{SEEN} {text} |" for kind, text in rows.items()}


def main(names: Sequence[str]) -> None:
    session, file = open_session(), DOCS / "kinds.md"
    kept = file.read_text(encoding="utf-8") if file.exists() else ""
    rows = seen_rows(session, names) if names else known_rows(kept)
    file.write_text(page(session.catalog, rows), encoding="utf-8")
    (DOCS / "kinds.svg").write_text(picture(session.catalog), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
