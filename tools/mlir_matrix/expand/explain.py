"""Explain a test: the rules that match it, its route, and its plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.errors import UsageError
from mlir_matrix.expand.expansion import Expansion, Test
from mlir_matrix.expand.properties import TestProperty, in_words
from mlir_matrix.expand.recipes import ResolvedStep
from mlir_matrix.expand.routes import Route
from mlir_matrix.expand.test_sets import Rule, TestKey, TestPattern
from mlir_matrix.names import SEGMENTS, printable

SCHEMA = "mlir-matrix/explanation/v1"
#: What a rule does to a test that it holds.
VERBS = {
    "block": "puts it in",
    "steps": "puts it in",
    "include": "puts it in",
    "property": "states it",
    "catalog": "is in the catalog",
    "exclude": "leaves it out",
    "expect": "expects",
}


@dataclass(frozen=True, slots=True)
class Applied:
    """A rule that holds the test; ``wins`` is False where an earlier one of its kind, or an exclusion, decides."""

    rule: Rule
    suite: str | None
    wins: bool


@dataclass(frozen=True)
class Explanation:
    """What is known about a test before it runs. ``actions``, ``environments``, ``tolerances``: from the caller."""

    test: Test
    suite: str | None
    rules: tuple[Applied, ...]
    #: The file of each thing that the identifier names: ``(kind, name, position)``.
    definitions: tuple[tuple[str, str, str], ...]
    actions: Sequence[dict[str, Any]] = field(default=())
    environments: Sequence[dict[str, Any]] = field(default=())
    tolerances: Sequence[dict[str, Any]] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """A value that ``json`` can write; keys may join, these stay."""
        test = self.test
        return {
            "schema": SCHEMA,
            "id": test.id,
            "framework": test.framework,
            "pipeline": test.pipeline,
            "target": test.target,
            "workload": test.workload,
            **({"property": property_json(test.tested_property)} if test.tested_property else {}),
            "suite": self.suite,
            "selected": test.selected,
            "outcome": test.outcome,
            "reason": test.reason,
            "definitions": [
                {"kind": kind, "name": name, "position": position} for kind, name, position in self.definitions
            ],
            "rules": [_rule_json(applied) for applied in self.rules],
            "expectation": _expectation_json(test.expectation) if test.expectation else None,
            "road": route_json(test.route) if test.route else None,
            "recipe": _resolved_step_json(test.resolved_step) if test.resolved_step else None,
            "actions": list(self.actions),
            "environments": list(self.environments),
            "tolerances": list(self.tolerances),
        }

    def to_text(self) -> str:
        """The same for people: plain lines, no colour, a newline at the end."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        test = self.test
        state = "selected" if test.selected else test.outcome or "left out"
        yield f"{test.id}: {state}"
        yield f"  {test.reason}"
        yield ""
        yield f"Rules{f' of suite {self.suite}' if self.suite else ''}"
        for applied in self.rules:
            of = f" of suite {applied.suite}" if applied.suite and applied.suite != self.suite else ""
            yield f"  {_rule_line(applied, of)}"
        if test.tested_property:
            yield ""
            yield f"Property: {in_words(test.tested_property)} ({test.tested_property.position})"
        if test.route:
            yield ""
            yield from _route_lines(test.framework, test.route)
        if test.tested_property and test.tested_property.cell and test.tested_property.route:
            yield f"Compared with {'/'.join(test.tested_property.cell)}/{test.workload}"
            yield from _route_lines(test.tested_property.cell[0], test.tested_property.route)
        if test.resolved_step:
            yield ""
            resolved_step = test.resolved_step
            by = (
                f"{resolved_step.tool} ({resolved_step.backend})"
                if resolved_step.backend == "programs"
                else resolved_step.tool
            )
            yield f"Step: {resolved_step.name} by {by} in {resolved_step.environment}"
            yield from _variant_lines(test.resolved_step, "  ")
        yield ""
        yield "Defined in"
        yield from (f"  {kind} {name}: {position}" for kind, name, position in self.definitions)
        for title, cells in (
            ("Actions", self.actions),
            ("Environments", self.environments),
            ("Tolerances", self.tolerances),
        ):
            if cells:
                yield ""
                yield title
                yield from (f"  {_pairs(cell_tests)}" for cell_tests in cells)


def explain(
    catalog: Catalog,
    expansion: Expansion,
    identifier: str,
    *,
    others: Sequence[Expansion] = (),
    actions: Sequence[dict[str, Any]] = (),
    environments: Sequence[dict[str, Any]] = (),
    tolerances: Sequence[dict[str, Any]] = (),
) -> Explanation:
    """Explain one test, left out and unsupported ones too. ``others``: of suites whose rules are told as well.

    Raises UsageError where no rule of the expansion puts such a test in.
    """
    test = expansion.test(identifier)
    if test is None:
        raise UsageError(_unknown(expansion, identifier))
    rules = tuple(_rules(expansion, test))
    if expansion.default is not None:
        rules += tuple(_rules(expansion.default, test))
    for other in others:
        # Another suite may spell the same pins differently.
        same = other.test(identifier)
        rules += tuple(_rules(other, same)) if same else ()
    definitions = tuple(_definitions(catalog, test))
    return Explanation(test, expansion.name, rules, definitions, actions, environments, tolerances)


def property_json(tested_property: TestProperty) -> dict[str, Any]:
    """A property as JSON: what must hold, in words too, and what the test is compared with."""
    property_kind = tested_property.property_kind.model_dump(exclude_none=True)
    found: dict[str, Any] = {
        "name": tested_property.name,
        "law": property_kind,
        "words": in_words(tested_property),
        "position": tested_property.position,
    }
    if tested_property.cell and tested_property.route:
        found |= {"cell": "/".join(tested_property.cell), "road": route_json(tested_property.route)}
    return found


def route_json(route: Route) -> dict[str, Any]:
    """A route as JSON: the kinds it passes, its steps, and where each value comes from."""
    return {
        "kind": route.kind,
        "source": route.source,
        "position": route.position,
        "ends": route.ends,
        "ingress": _resolved_step_json(route.ingress),
        "linker": route.linker,
        "runner": route.runner,
        "steps": [
            {
                "step": step.name,
                **_resolved_step_json(step.resolved_step),
                "position": step.position,
                "takes": step.takes,
                "gives": step.gives,
                "parameters": [
                    {
                        "name": argument.name,
                        "value": argument.value,
                        "position": argument.position,
                        "default": argument.default,
                    }
                    for argument in step.arguments
                ],
            }
            for step in route.steps
        ],
    }


def _resolved_step_json(resolved_step: ResolvedStep) -> dict[str, Any]:
    return {
        "tool": resolved_step.tool,
        "backend": resolved_step.backend,
        "environment": resolved_step.environment,
        "pins": dict(resolved_step.pins),
        "variant": resolved_step.variant or None,
        "because": resolved_step.because or None,
    }


def _rules(expansion: Expansion, test: Test) -> Iterator[Applied]:
    """All rules of an expansion that hold the test, in the order in which they are asked."""
    key = (test.framework, test.pipeline, test.target, test.called, test.pins)
    products = [product.rule for product in expansion.products if key in product]
    excludes = _holding(expansion.excludes, key)
    expects = _holding(expansion.expects, key)
    for index, rule in enumerate(_distinct(products)):
        yield Applied(rule, expansion.name, wins=index == 0 and not excludes)
    for index, rule in enumerate(excludes):
        yield Applied(rule, expansion.name, wins=index == 0 and bool(products))
    for rule in expects:
        yield Applied(rule, expansion.name, wins=rule is test.expectation)


def _definitions(catalog: Catalog, test: Test) -> Iterator[tuple[str, str, str]]:
    """Where the things that the identifier names are defined."""
    if test.is_ir:
        yield "step", test.pipeline, catalog.steps[test.pipeline].source.position()
        return
    yield "framework", test.framework, catalog.frameworks[test.framework].source.position()
    yield "pipeline", test.pipeline, catalog.pipelines[test.pipeline].source.position()
    yield "target", test.target, catalog.targets[test.target].source.position()
    yield "workload", test.workload, catalog.workloads[test.workload].source.position()


def _holding(patterns: Sequence[TestPattern], key: TestKey) -> list[Rule]:
    return _distinct([pattern.rule for pattern in patterns if key in pattern])


def _distinct(rules: Sequence[Rule]) -> list[Rule]:
    """A rule can hold a test through several of its patterns, and is one rule."""
    return list(dict.fromkeys(rules))


def _unknown(expansion: Expansion, identifier: str) -> str:
    shown = printable(identifier)
    namespace = expansion.namespace
    if identifier.count("/") != SEGMENTS - 1:
        return f"'{shown}' is not the identifier of a test: framework/pipeline/target/workload"
    if expansion.name and namespace.knows(namespace.exact(identifier)):
        return f"no rule of suite {expansion.name} puts {shown} in"
    return f"there is no test '{shown}': {namespace.why_nothing(identifier)}"


def _rule_json(applied: Applied) -> dict[str, Any]:
    rule = applied.rule
    found: dict[str, Any] = {
        "kind": rule.kind,
        "suite": applied.suite,
        "position": rule.position or None,
        "text": rule.text,
        "wins": applied.wins,
    }
    found |= {"reason": rule.reason} if rule.reason else {}
    return found | ({"outcome": rule.outcome, "link": rule.link} if rule.outcome else {})


def _expectation_json(rule: Rule) -> dict[str, Any]:
    return {"outcome": rule.outcome, "reason": rule.reason, "link": rule.link, "position": rule.position}


def _rule_line(applied: Applied, of: str) -> str:
    rule = applied.rule
    what = f"{rule.kind}{of}" + (f": {rule.text}" if rule.text else "")
    parts = [f"{rule.position}: {what}" if rule.position else "it"]
    parts.append(f"{VERBS[rule.kind]}{f' {rule.outcome}' if rule.outcome else ''}")
    if rule.reason:
        parts.append(rule.reason + (f" ({rule.link})" if rule.link else ""))
    if not applied.wins:
        parts.append("does not decide")
    return " · ".join(parts)


def _route_lines(framework: str, route: Route) -> Iterator[str]:
    yield f"Route: {framework} makes {route.kind} from {route.source} ({route.position})"
    for step in route.steps:
        yield f"  {step.name}: {step.takes} to {step.gives} ({step.position})"
        yield from _variant_lines(step.resolved_step, "    ")
        for argument in step.arguments:
            origin = "default" if argument.default else "set"
            yield f"    {argument.name} = {argument.value} ({origin} at {argument.position})"


def _variant_lines(resolved_step: ResolvedStep, indent: str) -> Iterator[str]:
    if resolved_step.variant:
        yield f"{indent}variant {resolved_step.variant}, because {resolved_step.because}"


def _pairs(cell_tests: dict[str, Any]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in cell_tests.items() if value not in (None, "", [], {}))
