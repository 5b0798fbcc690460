"""Find the continuations of a test: other ways from its levels to outputs on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import islice, product

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import split_pins, with_pins
from mlir_matrix.bisect.releases import default_component
from mlir_matrix.bisect.steps.evidence import Part
from mlir_matrix.catalog.releases import number
from mlir_matrix.environments.machine import HOST, x86_level
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.recipes import Unsupported
from mlir_matrix.expand.routes import Connector, Route
from mlir_matrix.expand.select import granted
from mlir_matrix.results.reproducer import pass_names

#: The part that comes before the importer.
PROGRAM = "the program or its expected output"
#: How many continuations are asked at a level, and how many other releases take part.
_AT_LEVEL, _RELEASES = 3, 2
#: How many where what is installed does not suffice.
_AT_LEVEL_FETCHING = 4
#: How many releases are looked at, the nearest first: a step may have no variant for some.
_NEAREST = 4


@dataclass(frozen=True, kw_only=True)
class Continuation:
    """A way from one level of a test to outputs."""

    #: ``linalg-openmp/x86_64-openmp``, with the releases that are not those of the test.
    name: str
    level: int
    #: The failing test with the cell and the route of the continuation.
    test: Test
    parts: tuple[Part, ...]
    #: Whether it begins with the importer and not with a level of the failing test.
    imports: bool = False


def _parts(session: Session, test: Test) -> list[Part]:
    """Return the parts of a test: the program, its importer if it has one, steps, and the target."""
    route = test.known_route
    first = [Part(PROGRAM, PROGRAM)]
    if route.ingress is not None:
        name = f"import/{test.framework}"
        identity = f"{name} {route.kind} {route.ingress.environment}"
        first.append(Part(name, identity, frozenset({name}), reads=route.source.endswith(".mlir")))
    return [*first, *_route_parts(session, test.target, route)]


def _route_parts(session: Session, target: str, route: Route) -> list[Part]:
    """Return the parts of a route: its steps, each spelled as ``matrix ir`` does, and the target."""
    parts: list[Part] = []
    for step in route.steps:
        times = 1 + sum(each.name.partition("#")[0] == step.name for each in parts)
        identity = f"{step.name} {step.resolved_step.environment} {sorted(step.parameters.items())}"
        uses = pass_names(step.resolved_step.passes or "") | {step.name}
        own = session.catalog.steps[step.name].root != session.catalog.roots[0]
        parts.append(Part(step.name if times == 1 else f"{step.name}#{times}", identity, uses, own=own))
    document = session.catalog.targets[target].document
    run = f"{document.triple or target} {route.linker} {route.runner.tool} {route.runner.environment}"
    return [*parts, Part(f"target {target}", run, frozenset({run}))]


class Continuations:
    """The continuations of one test."""

    def __init__(self, session: Session, test: Test, *, fetching: bool) -> None:
        """``fetching``: also other releases and oracles whose packages are not installed."""
        assert test.route is not None
        self._session, self._test, self._fetching = session, test, fetching
        self._connector = Connector(session.catalog, session.pins)
        #: By environment, because to resolve one takes milliseconds.
        self._is_installed = cache(self._installed)
        self.parts = _parts(session, test)
        #: The index of the first part whose output a step takes.
        self.first = len(self.parts) - len(test.route.steps) - 2
        self._kinds = test.route.kinds

    def chosen(self) -> list[Continuation]:
        """Return the continuations to ask, each at all levels that it can take."""
        found: dict[str, list[Continuation]] = {}
        for each in (*self._other_imports(), *self._all()):
            if each.parts != tuple(self.parts[each.level + 1 :]):
                found.setdefault(each.name, []).append(each)
        wanted: dict[str, None] = {}
        for level in range(len(self.parts) - 1):
            here = [each for family in found.values() for each in family if each.level == level]
            for each in self._best(sorted(here, key=self._rank)):
                wanted.setdefault(each.name)
        return [each for name in wanted for each in found[name]]

    def _best(self, ranked: Sequence[Continuation]) -> Iterator[Continuation]:
        """Yield the test's own pipeline in other releases, and the first continuations by other steps."""
        own = [each for each in ranked if self._is_own(each)]
        most = _AT_LEVEL_FETCHING if self._fetching else _AT_LEVEL
        yield from own[:_RELEASES]
        taken = set[str]()
        for each in ranked:
            if each not in own and each.test.pipeline not in taken and len(taken) < most:
                taken.add(each.test.pipeline)
                yield each

    def _is_own(self, each: Continuation) -> bool:
        return (each.test.pipeline, each.test.target) == (self._test.pipeline, self._test.target)

    def _rank(self, each: Continuation) -> tuple[object, ...]:
        """Return what orders continuations of a level: first those without the next step, oracles, and what is most unlike."""
        rest = self.parts[each.level + 1 :]
        own = {part.identity for part in rest[:-1]}
        equal = sum(part.identity in own for part in each.parts)
        begins_alike = not rest[0].uses.isdisjoint(each.parts[0].uses)
        other_target = each.test.target != self._test.target
        return begins_alike, not self._is_oracle(each), not self._runs_now(each), equal, other_target, len(each.parts)

    def _is_oracle(self, each: Continuation) -> bool:
        catalog = self._session.catalog
        modes = catalog.targets[each.test.target].document.modes.values()
        return any([catalog.pipelines[each.test.pipeline].document.oracle, *(mode.oracle for mode in modes)])

    def _installed(self, environment: str) -> bool:
        found = self._session.environment(environment)
        return isinstance(found, ResolvedEnvironment) and not found.missing(self._session.home.packages)

    def _runs_now(self, each: Continuation) -> bool:
        return all(map(self._is_installed, self._environments(each)))

    def _environments(self, each: Continuation) -> Iterator[str]:
        route = each.test.known_route
        yield from (step.resolved_step.environment for step in route.steps)
        yield from filter(None, (route.linker, route.runner.environment))
        if each.imports and route.ingress is not None:
            yield route.ingress.environment

    def _all(self) -> Iterator[Continuation]:
        """Yield every continuation of a level that a step of the test takes or gives."""
        test = self._test
        for pipeline, target in product(self._session.catalog.pipelines, self._targets):
            for pins in [test.pins, *(self._other_pins if pipeline == test.pipeline else ())]:
                yield from self._of_cell(pipeline, target, pins)

    def _of_cell(self, pipeline: str, target: str, pins: str) -> Iterator[Continuation]:
        for level, kind in enumerate(self._kinds, self.first):
            for route in self._routes((self._test.framework, pipeline, target), level, kind, pins):
                found = self._made(level, pipeline, target, pins, route)
                if found is not None:
                    yield found
                    break

    def _routes(self, cell: tuple[str, str, str], level: int, kind: str, pins: str) -> Iterator[Route]:
        """Yield the routes of a cell from a level. Other pins are for the test's own pipeline: its own steps come first."""
        test, (_, pipeline, target) = self._test, cell
        if pins != test.pins and target == test.target:
            route = self._connector.route(test.framework, pipeline, target, test.workload, pins)
            if isinstance(route, Route):
                yield replace(route, steps=route.steps[level - self.first :])
        for entry in self._session.catalog.pipelines[pipeline].document.entry:
            rest = self._connector.rest(cell, entry, kind, pins)
            if isinstance(rest, Unsupported) and pins == test.pins:
                # Pins of the test's identifier may be of no use there.
                rest = self._connector.rest(cell, entry, kind)
            if isinstance(rest, Route):
                yield rest

    def _made(
        self, level: int, pipeline: str, target: str, pins: str, route: Route, *, imports: bool = False
    ) -> Continuation | None:
        """Return a continuation, or None if it cannot run here."""
        name = with_pins(f"{pipeline}/{target}", pins if pins != self._test.pins else "")
        if name == f"{self._test.pipeline}/{self._test.target}":
            # The test's own pipeline, without steps that keep the kind.
            name = f"{name} from {route.kind}"
        test = replace(
            self._test, id=f"{name} from {level}", pipeline=pipeline, target=target, route=route, expectation=None
        )
        (test,) = granted(self._session.catalog, [test], (), x86_level, HOST.name)
        if not (test.selected and test.executes):
            return None
        parts = tuple(_route_parts(self._session, target, route))
        found = Continuation(name=name, level=level, test=test, parts=parts, imports=imports)
        may_be_fetched = self._fetching and (self._is_own(found) or self._is_oracle(found))
        return found if may_be_fetched or self._runs_now(found) else None

    def _other_imports(self) -> Iterator[Continuation]:
        """Yield tests of the same program whose importer gives another kind."""
        test, catalog = self._test, self._session.catalog
        own = test.known_route
        for pipeline, target in product(catalog.pipelines, self._targets if own.ingress is not None else ()):
            route = self._connector.route(test.framework, pipeline, target, test.workload)
            if isinstance(route, Route) and route.kind != own.kind:
                found = self._made(0, pipeline, target, test.pins, route, imports=True)
                if found is not None:
                    yield found

    @cached_property
    def _targets(self) -> list[str]:
        """The targets that run programs here. Modes are left out, because they compute with other numerics."""
        entries = self._session.catalog.targets.values()
        return [
            entry.name
            for entry in entries
            if HOST.name in entry.document.machine and not entry.document.compile_only and not entry.document.devices
            if "+" not in entry.name
        ]

    @cached_property
    def _other_pins(self) -> list[str]:
        """The pins of the test with other releases of its compiler, the nearest first."""
        catalog = self._session.catalog
        try:
            component = default_component(catalog, [split_pins(self._test.id)[0]])
        except UsageError:
            return []
        steps = [step.resolved_step for step in self._test.known_route.steps]
        user = next((step for step in steps if component in dict(step.pins)), None)
        if user is None:
            return []
        own = dict(user.pins)[component]
        others = [each.release for each in catalog.components[component].document.releases if each.release != own]
        kept = [pin for pin in self._test.pins.split(",") if pin and not pin.startswith(f"{component}=")]
        near = sorted(others, key=partial(_distance, own))
        pins = (",".join([*kept, f"{component}={release}"]) for release in near)
        environment = catalog.steps[user.name].document.environment
        usable = (each for each in pins if self._fetching or self._is_installed(with_pins(environment, each)))
        return list(islice(usable, _NEAREST))


def _distance(own: str, other: str) -> tuple[int, ...]:
    """Return how far two releases are from each other."""
    return tuple(abs(one - two) for one, two in zip(number(own)[:2], number(other)[:2], strict=False))
