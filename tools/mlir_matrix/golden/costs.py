"""Compare the exact costs of a run with their goldens, and edit ``golden/WORKLOAD/costs.yaml``.

Files are edited as text, so that comments and layout stay, and only numbers that change are lines of the diff.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import yaml

from mlir_matrix.actions.outcomes import RIGHT
from mlir_matrix.base.text import Edit, apply
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.load import COSTS
from mlir_matrix.expand.costs import CostResolver
from mlir_matrix.expand.expansion import Test
from mlir_matrix.golden.layer_patch import value_of
from mlir_matrix.results.costs import compared
from mlir_matrix.results.results import NOT_RUN, TestResult

if TYPE_CHECKING:
    from mlir_matrix.golden.documents import CostFailure, CostUpdate, NewCost

_SCHEMA = "docs/schemas/cost-goldens.json"


@dataclass(frozen=True, kw_only=True)
class CellCosts:
    """The costs of a test that its golden lacks, or that differ from it by more than the bound."""

    test: Test
    file: Path
    #: Whether the test has a golden of any cost.
    known: bool
    costs: Sequence[NewCost]

    @property
    def state(self) -> Literal["same", "different", "new"]:
        """What its file has to become."""
        if not self.costs:
            return "same"
        return "different" if self.known else "new"

    @property
    def match(self) -> dict[str, str]:
        """The conditions of a layer for this test alone."""
        return {"framework": self.test.framework, "pipeline": self.test.pipeline, "target": self.test.target}


def compare_costs(
    catalog: Catalog, tests: Iterable[Test], results: Mapping[str, TestResult]
) -> tuple[list[CellCosts], list[CostFailure]]:
    """Return what differs for each test, and why other tests have no goldens. Tests that did not run are left out."""
    resolver = CostResolver(catalog)
    found: list[CellCosts] = []
    failures: list[CostFailure] = []
    for test in tests:
        result = results[test.id]
        if result.outcome in NOT_RUN:
            continue
        if reason := _why_none(catalog, test, result):
            failures.append({"id": test.id, "reason": reason})
            continue
        assert result.costs is not None
        goldens = resolver.of(test)
        costs: list[NewCost] = []
        for name, value in result.costs["exact"].items():
            golden, bound = goldens.get(name), resolver.bound(test, name)
            # Only costs with a bound have goldens.
            if golden is None and bound.position:
                costs.append({"cost": name, "golden": None, "value": value})
            elif golden is not None and compared(name, value, golden.value, golden.bound) != "equal":
                costs.append({"cost": name, "golden": golden.value, "value": value})
        found.append(CellCosts(test=test, file=_file(catalog, test), known=bool(goldens), costs=costs))
    return found, failures


def _why_none(catalog: Catalog, test: Test, result: TestResult) -> str:
    """Return why a test has no goldens of its costs; empty if it may have some."""
    if result.outcome not in RIGHT:
        return f"{result.outcome}: {result.reason}"
    if result.costs is None:
        return "its costs are not counted: it runs no artifact of a route"
    if result.costs.get("native"):
        return f"its code depends on the CPU that compiled it; choose a target with a CPU of its own instead of {test.target}"
    if test.pins:
        return "its suite varies releases; goldens are those of the default ones"
    if test.tested_property is not None:
        return "it tests a property; goldens are those of its workload"
    if catalog.workloads[test.workload].member:
        return "it is a member of a corpus, which has no folder of goldens"
    return ""


def _file(catalog: Catalog, test: Test) -> Path:
    """Return the file with the goldens of a test: in the last catalog of those that define a part of it."""
    names = (test.framework, test.pipeline, test.target, test.workload)
    roots = [entries[name].root for entries, name in zip(catalog.axes.values(), names, strict=True)]
    return max(roots, key=catalog.roots.index) / "golden" / test.workload / COSTS


def edited_files(cells: Iterable[CellCosts]) -> dict[Path, str]:
    """Return the new text of each file that changes."""
    by_file: dict[Path, list[CellCosts]] = {}
    for cell in cells:
        if cell.costs:
            by_file.setdefault(cell.file, []).append(cell)
    texts: dict[Path, str] = {}
    for file, changed in by_file.items():
        before = file.read_text(encoding="utf-8") if file.exists() else _begin(file)
        texts[file] = edited(before, changed)
    return texts


def _begin(file: Path) -> str:
    """Return the beginning of a new file: in this repository, the schema for editors."""
    has_schema = (file.parents[2] / _SCHEMA).is_file()
    return (f"# yaml-language-server: $schema=../../{_SCHEMA}\n" if has_schema else "") + "layers:\n"


def edited(text: str, cells: Sequence[CellCosts]) -> str:
    """Return the text of a file in which the layer of each cell has new costs. A cell without a layer gets one at the end."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    layers = value_of(root, "layers")
    known = layers.value if isinstance(layers, yaml.SequenceNode) else []
    edits: list[Edit] = []
    added: list[CellCosts] = []
    for cell in cells:
        layer = next((each for each in known if _matched(each) == cell.match), None)
        if layer is None:
            added.append(cell)
        else:
            edits += _layer_edits(layer, cell.costs)
    if isinstance(layers, yaml.SequenceNode) and layers.flow_style:
        end = layers.end_mark.index - 1
        flow = "".join(f", {{match: {_flow(cell.match)}, costs: {_flow(_numbers(cell.costs))}}}" for cell in added)
        return apply(text, [*edits, *([(end, end, flow)] if added else [])])
    column = layers.start_mark.column if isinstance(layers, yaml.SequenceNode) else 2
    text = apply(text, edits).rstrip("\n") + "\n"
    return text + "".join(_block(cell, " " * column) for cell in added)


def _block(cell: CellCosts, indent: str) -> str:
    lines = [f"- match: {_flow(cell.match)}", "  costs:"]
    lines += [f"    {name}: {value}" for name, value in _numbers(cell.costs).items()]
    return "".join(f"{indent}{line}\n" for line in lines)


def _layer_edits(layer: yaml.Node, costs: Sequence[NewCost]) -> Iterator[Edit]:
    """Return the edits that give a layer these costs: numbers are replaced, new costs come first."""
    node = value_of(layer, "costs")
    known = {name.value: value for name, value in node.value} if isinstance(node, yaml.MappingNode) else {}
    new = {name: value for name, value in _numbers(costs).items() if name not in known}
    for name, value in _numbers(costs).items():
        if name in known:
            yield known[name].start_mark.index, known[name].end_mark.index, value
    if not new:
        return
    if known:
        yield _inserted(node, ", ".join(f"{name}: {value}" for name, value in new.items()), new)
    else:
        yield _inserted(layer, f"costs: {_flow(new)}", {"costs": _flow(new)})


def _inserted(node: yaml.Node | None, flow: str, block: Mapping[str, str]) -> Edit:
    """Return the edit that adds keys at the beginning of a mapping."""
    assert isinstance(node, yaml.MappingNode)
    at = node.start_mark.index
    if node.flow_style:
        return at + 1, at + 1, f"{flow}, "
    line_end = "\n" + " " * node.start_mark.column
    return at, at, "".join(f"{name}: {value}{line_end}" for name, value in block.items())


def _matched(layer: yaml.Node) -> dict[str, str]:
    """Return the keys that a layer matches, without those that are lists."""
    match = value_of(layer, "match")
    pairs = match.value if isinstance(match, yaml.MappingNode) else []
    return {name.value: value.value for name, value in pairs}


def _flow(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in values.items()) + "}"


def _numbers(costs: Iterable[NewCost]) -> dict[str, str]:
    return {each["cost"]: repr(each["value"]) for each in costs}


def cost_update_document(cells: Sequence[CellCosts], failures: Sequence[CostFailure], *, written: bool) -> CostUpdate:
    """Return the document of an update of goldens of costs."""
    stale = [cell for cell in cells if cell.costs]
    return {
        "schema": "mlir-matrix/cost-update/v1",
        "summary": {"tests": len(cells), "stale": len(stale), "failures": len(failures)},
        "tests": [
            {
                "id": cell.test.id,
                "state": cell.state,
                "file": str(cell.file),
                "written": written and bool(cell.costs),
                "costs": list(cell.costs),
            }
            for cell in cells
        ],
        "failures": list(failures),
    }
