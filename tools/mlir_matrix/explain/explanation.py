"""Explain a test: the rules that match it, its route, and its plan."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from mlir_matrix.actions.contract import fill
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.models.base import ParameterValue
from mlir_matrix.expand.expansion import Expansion, Test
from mlir_matrix.expand.properties import in_words
from mlir_matrix.expand.recipes import ResolvedStep
from mlir_matrix.expand.routes import Route
from mlir_matrix.expand.select import find_test
from mlir_matrix.expand.test_sets import Rule, TestProperty

if TYPE_CHECKING:
    from mlir_matrix.explain.documents import ExplainedAction, ExplainedEnvironment, ExplainedRule, TestExplanation

#: The effect of a rule on a test that it applies to.
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
class AppliedRule:
    """A rule that applies to the test; ``wins`` is False if an earlier one of its kind, or an exclusion, decides."""

    rule: Rule
    suite: str | None
    wins: bool


@dataclass(frozen=True)
class Explanation:
    """Everything that decides a test before it runs."""

    test: Test
    suite: str | None
    rules: tuple[AppliedRule, ...]
    #: Each entry that the identifier names: ``(kind, name, position)``.
    definitions: tuple[tuple[str, str, str], ...]
    actions: Sequence[ExplainedAction] = ()
    environments: Sequence[ExplainedEnvironment] = ()
    #: Layers by ``output``.
    tolerances: Sequence[dict[str, Any]] = ()

    def to_json(self) -> TestExplanation:
        """Return the document."""
        test = self.test
        found: TestExplanation = {
            "schema": "mlir-matrix/explanation/v1",
            "id": test.id,
            "summary": {name: len(getattr(self, name)) for name in ("rules", "actions", "environments", "tolerances")},
            "framework": test.framework,
            "pipeline": test.pipeline,
            "target": test.target,
            "workload": test.workload,
            "suite": self.suite,
            "selected": test.selected,
            "outcome": test.outcome,
            "reason": test.reason,
            "definitions": [
                {"kind": kind, "name": name, "position": position} for kind, name, position in self.definitions
            ],
            "rules": [_rule_json(applied) for applied in self.rules],
            "expectation": _expectation_json(test.expectation),
            "route": route_json(test.route) if test.route else None,
            "recipe": _resolved_step_json(test.resolved_step) if test.resolved_step else None,
            "actions": list(self.actions),
            "environments": list(self.environments),
            "tolerances": list(self.tolerances),
        }
        if test.tested_property:
            found["property"] = property_json(test.tested_property)
        return found

    def to_text(self) -> str:
        """Return plain lines for a terminal, without colours, with a newline at the end."""
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
            step = test.resolved_step
            by = f"{step.tool} (programs)" if step.backend == "programs" else step.tool
            yield ""
            yield f"Step: {step.name} by {by} in {step.environment}"
            yield from _variant_lines(step, "  ")
            if step.passes:
                yield f"  passes {_passes(step, step.parameters)}"
        yield ""
        yield "Defined in"
        yield from (f"  {kind} {name}: {position}" for kind, name, position in self.definitions)
        tables = (
            ("Actions", map(_action_line, self.actions)),
            ("Environments", _environment_lines(self.environments)),
            ("Tolerances", map(_layer_line, self.tolerances)),
        )
        for title, lines in tables:
            rows = [f"  {line}" for line in lines]
            yield from ("", title, *rows) if rows else ()


def explain(
    catalog: Catalog,
    expansion: Expansion,
    identifier: str,
    *,
    others: Sequence[Expansion] = (),
) -> Explanation:
    """Explain one test, even if it is left out or unsupported. ``others``: more suites whose rules to show.

    Raise UsageError if no rule of the expansion selects the test.
    """
    test = find_test(expansion, identifier)
    rules = tuple(_rules(expansion, test))
    if expansion.default is not None:
        rules += tuple(_rules(expansion.default, test))
    for other in others:
        # Another suite may spell the same pins differently.
        same = other.test(identifier)
        rules += tuple(_rules(other, same)) if same else ()
    definitions = []
    names = (test.framework, test.pipeline, test.target, test.workload)
    things = zip(catalog.axes, names, catalog.axes.values(), strict=True)
    for kind, name, entries in [("step", test.pipeline, catalog.steps)] if test.is_ir else things:
        definitions.append((kind, name, entries[name].source.position()))
    return Explanation(test, expansion.name, rules, tuple(definitions))


def property_json(tested_property: TestProperty) -> dict[str, Any]:
    """Return a property as JSON, with its description, and the cell that the test is compared with."""
    property_kind = tested_property.property_kind.model_dump(exclude_none=True)
    found: dict[str, Any] = {
        "name": tested_property.name,
        "property": property_kind,
        "words": in_words(tested_property),
        "position": tested_property.position,
    }
    if tested_property.cell and tested_property.route:
        found |= {"cell": "/".join(tested_property.cell), "route": route_json(tested_property.route)}
    return found


def route_json(route: Route) -> dict[str, Any]:
    """Return a route as JSON: the kinds that it passes, its steps, and the position of each value."""
    return {
        "kind": route.kind,
        "source": route.source,
        "position": route.position,
        "ends": route.ends,
        "ingress": _resolved_step_json(route.ingress) if route.ingress else None,
        "linker": route.linker or None,
        "runner": route.runner.environment,
        "steps": [
            {
                "step": step.name,
                **_resolved_step_json(step.resolved_step),
                "position": step.position,
                "takes": step.takes,
                "gives": step.gives,
                "parameters": [asdict(argument) for argument in step.arguments],
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


def _rules(expansion: Expansion, test: Test) -> Iterator[AppliedRule]:
    """Return all rules of an expansion that apply to the test, in the order in which they are evaluated."""
    identity = test.identity
    # A rule can match a test by several of its patterns.
    products = dict.fromkeys(each.rule for each in expansion.products if identity in each)
    excludes, expects = (
        dict.fromkeys(each.rule_of(test.called) for each in sets if identity in each)
        for sets in (expansion.excludes, expansion.expects)
    )
    for index, rule in enumerate(products):
        yield AppliedRule(rule, expansion.name, wins=index == 0 and not excludes)
    for index, rule in enumerate(excludes):
        yield AppliedRule(rule, expansion.name, wins=index == 0 and bool(products))
    for rule in expects:
        yield AppliedRule(rule, expansion.name, wins=rule is test.expectation)


def _expectation_json(rule: Rule | None) -> dict[str, str | None] | None:
    if rule is None:
        return None
    return {"outcome": rule.outcome, "reason": rule.reason, "link": rule.link, "position": rule.position}


def _rule_json(applied: AppliedRule) -> ExplainedRule:
    rule = applied.rule
    found: ExplainedRule = {
        "kind": rule.kind,
        "suite": applied.suite,
        "position": rule.position or None,
        "text": rule.text,
        "wins": applied.wins,
    }
    if rule.reason:
        found["reason"] = rule.reason
    if rule.kind == "expect":
        found |= {"outcome": rule.outcome, "link": rule.link}
    return found


def _rule_line(applied: AppliedRule, of: str) -> str:
    rule = applied.rule
    what = f"{rule.kind}{of}" + (f": {rule.text}" if rule.text else "")
    parts = [f"{rule.position}: {what}" if rule.position else "it"]
    parts.append(f"{VERBS[rule.kind]}{f' {rule.outcome}' if rule.kind == 'expect' else ''}")
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
        if step.resolved_step.passes:
            yield f"    passes {_passes(step.resolved_step, step.parameters)}"


def _variant_lines(resolved_step: ResolvedStep, indent: str) -> Iterator[str]:
    if resolved_step.variant:
        yield f"{indent}variant {resolved_step.variant}, because {resolved_step.because}"


def _passes(resolved_step: ResolvedStep, values: Mapping[str, ParameterValue]) -> str:
    """Return the pipeline of a step with these values of its parameters, on one line that can be copied."""
    return fill(" ".join((resolved_step.passes or "").split()), values)


def _action_line(action: ExplainedAction) -> str:
    params = cast("dict[str, Any]", action["params"])
    command = params.get("command", ())
    # A program, a Python file of a catalog, or a tool of the package.
    what = command[0] if command else params.get("tool", action["kind"])
    devices = " and ".join(params.get("devices", ()))
    granted = f", with {devices} if granted" if devices else ""
    scaled = f", scaled: {action['scaled']}" if "scaled" in action else ""
    return f"{action['id']}: {what} in {action['environment']}{granted}{scaled}"


def _environment_lines(environments: Sequence[ExplainedEnvironment]) -> Iterator[str]:
    """Yield the environments; files of this machine that all of them read come once."""
    shared = set.intersection(*({*each["bound"]} for each in environments)) if environments else set()
    for each in environments:
        pins = ", ".join(f"{component} {release}" for component, release in each["pins"].items())
        digest = f"digest {each['digest'][:16]}" if "digest" in each else ""
        words = filter(None, (pins, each.get("interpreter"), each.get("unavailable"), digest))
        own = [path for path in each["bound"] if path not in shared]
        yield f"{each['name']}: {'; '.join(words)}{_paths(own)}"
    if shared:
        yield f"all of them: the machine's files{_paths(sorted(shared))}"


def _paths(paths: Sequence[str]) -> str:
    return "".join(f"\n    reads {path}" for path in paths)


def _layer_line(layer: dict[str, Any]) -> str:
    line = f"{layer['output']}: {layer['layer']} {layer['why']}"
    if "oracle" in layer:
        return f"{line}\n{_filled(layer['oracle'])}"
    if "atol" in layer:
        return f"{line}: atol {layer['atol']}, rtol {layer['rtol']}\n{_filled(layer['rationale'])}"
    return line


def _filled(text: str) -> str:
    return textwrap.fill(text, 96, initial_indent="    ", subsequent_indent="    ")
