"""Write a plan as JSON: every test with its reason, every action with its inputs and the tests that need it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from mlir_matrix.actions.sandbox.isolation import CLEAN_ENVIRONMENT
from mlir_matrix.environments.machine import HOST
from mlir_matrix.environments.package import Package, Releases, distributions
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Environment, Session
from mlir_matrix.environments.state import cost_of
from mlir_matrix.execute.keys import input_names, tool_modules
from mlir_matrix.expand.expansion import Test
from mlir_matrix.plan.graph import BUILDING, Graph, Input, PlannedAction, Produced
from mlir_matrix.plan.planner import PlannedTests

if TYPE_CHECKING:
    from mlir_matrix.plan.documents import (
        FromAction,
        FromFile,
        HermeticCommand,
        NamedTest,
        PlannedEnvironment,
        PlannedTarget,
        PlannedTest,
        PlannedUnit,
        Selection,
        UnitPart,
    )
    from mlir_matrix.plan.documents import Plan as PlanDocument

SCHEMA = "mlir-matrix/plan/v1"


def to_document(
    tests: Collection[Test],
    plan: PlannedTests,
    session: Session,
    *,
    sealed: bool = False,
    selection: Selection | None = None,
) -> PlanDocument:
    """Return the plan document. ``tests`` may hold more than the plan: it then lists why the others are left out.

    ``sealed``: with sealed environments.
    """
    parts = document_parts(tests, plan, session, sealed=sealed, selection=selection)
    return cast(
        "PlanDocument", {name: list(value) if isinstance(value, Iterator) else value for name, value in parts.items()}
    )


def document_parts(
    tests: Collection[Test],
    plan: PlannedTests,
    session: Session,
    *,
    sealed: bool = False,
    selection: Selection | None = None,
) -> dict[str, object]:
    """Return the plan document with iterators for ``tests`` and ``actions``: lists for 100,000 tests take gigabytes."""
    needed = _needed(plan)
    actions = plan.graph.actions.values()
    environments = session.environments((action.environment for action in actions), sealed=sealed)
    return {
        "schema": SCHEMA,
        "summary": {
            "to_run": len(plan.verdicts),
            "unsupported": sum(test.outcome is not None for test in tests),
            "left_out": sum(not test.selected and test.outcome is None for test in tests),
            "actions": len(actions),
            "environments": len(environments),
        },
        "tests": (_test(test, plan.verdicts.get(test.id)) for test in tests),
        "actions": ({**action_document(action, plan.graph), "tests": needed[action.id]} for action in actions),
        "environments": [environment_document(item, session) for item in environments.values()],
        "targets": _targets(plan, session),
        "machine": HOST.name,
        "variables": CLEAN_ENVIRONMENT,
        "tools": _tools(actions),
        **({} if selection is None else {"selection": selection}),
    }


def _tools(actions: Iterable[PlannedAction]) -> dict[str, list[str]]:
    """Return the modules of each tool and of its backends."""
    found: dict[str, set[str]] = {}
    for tool, backend in sorted({(action.tool, action.params.get("backend") or "") for action in actions}):
        found.setdefault(tool, set()).update(tool_modules(tool, backend))
    return {tool: sorted(modules) for tool, modules in found.items()}


def to_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the document as JSON with one entry per line, for line-by-line comparison.

    With one key per line, writing it takes longer than planning.
    """
    yield "{"
    left = len(document)
    for name, value in document.items():
        left -= 1
        comma = "," if left else ""
        entries = iter(value) if isinstance(value, (list, Iterator)) else iter(())
        first = next(entries, None)
        if first is None:
            yield f" {json.dumps(name)}: {'[]' if isinstance(value, Iterator) else json.dumps(value)}{comma}"
            continue
        yield f" {json.dumps(name)}: ["
        text = json.dumps(first)
        for entry in entries:
            yield f"  {text},"
            text = json.dumps(entry)
        yield f"  {text}"
        yield f" ]{comma}"
    yield "}"


def _test(test: Test, verdict: str | None) -> PlannedTest:
    names: NamedTest = {
        "id": test.id,
        "framework": test.framework,
        "pipeline": test.pipeline,
        "target": test.target,
        "workload": test.workload,
    }
    if test.tested_property:
        names["property"] = test.tested_property.name
    entry: PlannedTest = {
        **names,  # type: ignore[typeddict-item] # keys that may be absent follow
        "selected": test.selected,
        "reason": test.reason,
    }
    if test.outcome is not None:
        entry["outcome"] = test.outcome
    if test.expectation is not None:
        rule = test.expectation
        entry["expectation"] = {
            "outcome": rule.outcome,
            "reason": rule.reason,
            "position": rule.position,
        }
        if rule.link:
            entry["expectation"]["link"] = rule.link
    if verdict is not None:
        entry["verdict"] = verdict
    return entry


def _targets(plan: PlannedTests, session: Session) -> list[PlannedTarget]:
    names = sorted({test.target for test in plan.tests if not test.is_ir})
    targets = {name: session.catalog.targets[name].document for name in names}
    return [{"name": name, "triple": each.triple or f"{each.machine[0]}-linux-gnu"} for name, each in targets.items()]


#: Keys of an environment that differ between machines or days.
_PASSING = ("bytes", "missing", "packages")


def lasting(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan document without keys that differ between machines or days."""
    environments = [
        {key: value for key, value in environment.items() if key not in _PASSING}
        for environment in document["environments"]
    ]
    return {**document, "environments": environments}


def _needed(plan: PlannedTests) -> dict[str, list[str]]:
    """Return the tests that need each action."""
    needed: dict[str, list[str]] = {identifier: [] for identifier in plan.graph.actions}
    for test, verdict in plan.verdicts.items():
        for identifier in plan.graph.needed_by(verdict):
            needed[identifier].append(test)
    return needed


def _input(ref: Input, path: str) -> FromAction | FromFile:
    if isinstance(ref, Produced):
        return {"action": ref.action, "output": ref.output, "path": path}
    found: FromFile = {"catalog": ref.root, "file": ref.path, "path": path}
    if ref.optional:
        found["optional"] = True
    return found


def action_document(action: PlannedAction, graph: Graph) -> HermeticCommand:
    """Return an action without the tests that need it."""
    paths = input_names(action, graph)
    return {
        "id": action.id,
        "kind": action.tool,
        "stage": action.stage,
        "environment": action.environment,
        "params": dict(action.params),
        "inputs": {name: _input(ref, paths[name]) for name, ref in action.inputs.items()},
        "outputs": dict(action.outputs),
        "native": action.native,
        "building": action.tool in BUILDING,
    }


def units_document(environment: ResolvedEnvironment, releases: Releases) -> list[PlannedUnit]:
    """Return the packages of an environment: folder, role and component."""
    owners = {
        f"{name} {version}": entry
        for entry, release in releases
        for name, version in (distributions([(entry, release)]) or {entry.name: release.release}).items()
    }
    parts: dict[Package | None, UnitPart] = {environment.interpreter.prefix: "interpreter"}
    parts |= dict.fromkeys(environment.packages, "site")
    parts |= dict.fromkeys(environment.prefixes, "prefix")
    found: list[PlannedUnit] = []
    for folder, unit in environment.folders.items():
        if unit not in parts:
            continue
        entry: PlannedUnit = {"label": unit.label, "folder": folder, "part": parts[unit]}
        if entry["part"] == "prefix":
            entry["release"] = unit.release
        owner = owners.get(unit.label)
        if owner is not None:
            entry["component"] = owner.name
            if owner.document.reads:
                entry["reads"] = owner.document.reads
        found.append(entry)
    return found


def environment_document(environment: Environment, session: Session) -> PlannedEnvironment:
    """Return an environment: its digest, its cost and downloads, or why it is unavailable."""
    entry: PlannedEnvironment = {"name": environment.name, "pins": session.pins_of(environment.name)}
    if not isinstance(environment, ResolvedEnvironment):
        entry["unavailable"] = environment.reason
        return entry
    entry["digest"] = environment.digest
    entry["interpreter"] = f"cpython {environment.interpreter.version}"
    if environment.foreign:
        entry["foreign"] = True
    entry["units"] = units_document(environment, session.releases(environment.name))
    entry["packages"] = [unit.label.replace(" ", "==") for unit in environment.units]
    entry["missing"] = [unit.label.replace(" ", "==") for unit in environment.missing(session.home.packages)]
    cost = cost_of([environment], session.home)
    entry["bytes"] = {
        "fetch": cost.fetch,
        "to_fetch": cost.to_fetch,
        "disk": cost.disk,
        "to_install": cost.to_install,
        "exact": cost.exact,
    }
    return entry
