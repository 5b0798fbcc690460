"""What a person asks for on the command line: suites by name, tests by glob or identifier.

- Nothing: the default suite.
- ``SUITE``: a suite; several are united, a test belongs to the first that has it.
- ``GLOB`` or a test's identifier (anything with a ``/`` or a glob character): with suites, what they have of it; alone,
  what the whole catalog has of it, so that every test can be run whether or not a suite lists it. Tests with a property
  (``…/matmul~scaling``) are those of all suites that state some: nothing else does.

A glob takes unsupported tests along, with their reasons. A test that is named must be able to run. Pins after an
identifier (``…/asin@llvm=19``) are what a suite varies, in any order and by any name of the release; without a suite
they pin the component for that test.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeVar

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.catalog.catalog import DEFAULT_SUITE, Catalog
from mlir_matrix.catalog.pins import Pins, read_pins
from mlir_matrix.errors import UsageError
from mlir_matrix.expand.expansion import Expansion, Test
from mlir_matrix.expand.suite import everything, expand, varied
from mlir_matrix.expand.test_sets import NO_PINS, TestPattern
from mlir_matrix.names import OF, SEGMENT_NAMES, SEGMENTS, did_you_mean, in_order, name_glob, printable, test_glob

T = TypeVar("T")
#: Patterns of the globs; None: all.
Selector = Sequence[TestPattern] | None


@dataclass(frozen=True)
class Choice:
    """What was asked for: expansions, and the patterns of the globs in each of them (None: all)."""

    expansions: tuple[Expansion, ...]
    selectors: tuple[tuple[TestPattern, ...] | None, ...]

    def ids(self) -> Iterator[str]:
        """The identifiers of the chosen tests, unsupported ones too, each once."""
        return self._once(Expansion.ids, str)

    def tests(self, *, excluded: bool = False) -> Iterator[Test]:
        """The chosen tests, unsupported ones too, each once; with ``excluded`` also what the suites leave out of them.

        With several suites a test that one leaves out and another has is in.
        """
        if not excluded:
            return self._once(Expansion.tests, lambda test: test.id)
        if len(self.expansions) == 1:
            return self.expansions[0].tests(self.selectors[0], excluded=True)
        return chain(self.tests(), self._left_out())

    def count(self) -> int:
        """How many tests are chosen, unsupported ones too."""
        if len(self.expansions) == 1:
            return self.expansions[0].count(self.selectors[0])
        return sum(1 for _ in self.ids())

    def test(self, identifier: str) -> Test | None:
        """One test of the expansions by its identifier: the one that is in, else one left out, else None."""
        found = [test for expansion in self.expansions if (test := expansion.test(identifier))]
        return next((test for test in found if not test.excluded), found[0] if found else None)

    def _once(self, read: Callable[[Expansion, Selector], Iterator[T]], key: Callable[[T], str]) -> Iterator[T]:
        parts = [read(expansion, patterns) for expansion, patterns in zip(self.expansions, self.selectors, strict=True)]
        return parts[0] if len(parts) == 1 else _unique(chain(*parts), key)

    def _left_out(self) -> Iterator[Test]:
        seen = set(self.ids())
        for expansion, patterns in zip(self.expansions, self.selectors, strict=True):
            for test in expansion.tests(patterns, excluded=True):
                if test.excluded and test.id not in seen:
                    seen.add(test.id)
                    yield test


def choose(
    catalog: Catalog, arguments: Sequence[str] = (), default: str = DEFAULT_SUITE, pins: Pins | None = None
) -> Choice:
    """Resolve the arguments of a command. Raises UsageError for what names nothing or cannot run."""
    suites = [argument for argument in arguments if is_suite(argument)]
    globs = [argument for argument in arguments if not is_suite(argument)]
    for name in suites:
        if name not in catalog.suites:
            raise UsageError(_no_suite(catalog, name))
    if suites or not globs:
        names = dict.fromkeys(suites or [default])
        if default in names and default not in catalog.suites:
            raise UsageError(f"the catalog has no suite '{default}', which is meant where no other is named")
        expansions = tuple(expand(catalog, catalog.suites[name], pins) for name in names)
    else:
        expansions = (whole_catalog(catalog, globs, default, pins),)
        if any(OF in glob for glob in globs):
            expansions += tuple(_stating(catalog, default, pins))
    if not globs:
        return Choice(expansions, (None,) * len(expansions))
    for glob in globs:
        _check(expansions, glob)
    asked = [globs if suites or not number else _with_property(globs) for number in range(len(expansions))]
    selectors = [tuple(_boxes(expansion, some)) for expansion, some in zip(expansions, asked, strict=True)]
    return Choice(expansions, tuple(selectors))


def granted(catalog: Catalog, tests: Iterable[Test], devices: Collection[str] = ()) -> Iterable[Test]:
    """Skip the tests whose target declares a device that the operator does not grant."""
    lacking = {
        name: lack
        for name, entry in catalog.targets.items()
        if (lack := [device for device in entry.document.devices if device not in devices])
    }
    return map(partial(_withheld, lacking), tests) if lacking else tests


def _withheld(lacking: Mapping[str, Sequence[str]], test: Test) -> Test:
    targets = (test.target, test.tested_property.cell[2] if test.tested_property and test.tested_property.cell else "")
    target = next((name for name in targets if name in lacking), None)
    if target is None or not test.selected:
        return test
    needs, one = lacking[target], len(lacking[target]) == 1
    reason = f"target {target} needs {' and '.join(needs)}, which {'is' if one else 'are'} not granted; matrix run "
    reason += f"{' '.join(f'--device {device}' for device in needs)} grants {'it' if one else 'them'}"
    return replace(test, outcome=Outcome.SKIPPED, selected=False, reason=reason, expectation=None)


def _with_property(globs: Iterable[str]) -> list[str]:
    return [glob for glob in globs if OF in glob]


def _stating(catalog: Catalog, default: str, pins: Pins | None) -> Iterator[Expansion]:
    """The suites that state properties, the default one first; those that run over the releases of what is pinned have no say."""
    for suite in sorted(catalog.suites.values(), key=lambda each: each.name != default):
        if suite.document.properties and not (pins and list(varied(suite, pins))):
            yield expand(catalog, suite, pins)


def whole_catalog(
    catalog: Catalog, globs: Iterable[str], default: str = DEFAULT_SUITE, pins: Pins | None = None
) -> Expansion:
    """All tests of the catalog, those with the pins that the globs name among them."""
    return everything(catalog, default, pins, _varied(catalog, globs))


def _varied(catalog: Catalog, globs: Iterable[str]) -> tuple[str, ...]:
    """The pins that globs without a suite name; none comes first. Raises UsageError for a release that there is not."""
    found: dict[frozenset[tuple[str, str]], str] = {}
    for glob in globs:
        pins = in_order(glob.partition("@")[2])
        if pins:
            if not name_glob(pins).literal:
                raise UsageError(f"'{printable(glob)}': a glob over pins needs a suite that varies them")
            meant = read_pins(catalog, pins.split(","), f"'{printable(glob)}'")
            found.setdefault(frozenset(meant.items()), pins)
    return (*NO_PINS, *found.values())


def is_suite(argument: str) -> bool:
    """Whether an argument names a suite: no ``/``, ``~``, ``@`` and no glob character."""
    return not any(character in argument for character in f"/@{OF}*?[]{{}}")


def is_identifier(glob: str) -> bool:
    """Whether a test is named exactly: four segments, no glob character."""
    found = test_glob(glob)
    exact = all(len(parts) == SEGMENTS and all(part.literal for part in parts) for parts in found.segments)
    return exact and all(part is None or part.literal for part in (found.property, found.pins))


def _boxes(expansion: Expansion, globs: Iterable[str]) -> Iterator[TestPattern]:
    for glob in globs:
        yield from _boxes_of(expansion, glob)


def _boxes_of(expansion: Expansion, glob: str) -> tuple[TestPattern, ...]:
    """The patterns of a glob. Where no suite varies pins, those of other globs are none of its business."""
    patterns = expansion.namespace.patterns(expansion.spelled(glob))
    if expansion.name is None:
        return tuple(replace(pattern, pins="".__eq__) if pattern.pins is None else pattern for pattern in patterns)
    return patterns


def _unique(items: Iterable[T], key: Callable[[T], str]) -> Iterator[T]:
    seen: set[str] = set()
    for item in items:
        name = key(item)
        if name not in seen:
            seen.add(name)
            yield item


def _check(expansions: Sequence[Expansion], glob: str) -> None:
    """Refuse a glob that matches no test, and an identifier of a test that cannot run."""
    if is_identifier(glob):
        _check_identifier(expansions, glob)
    elif not any(expansion.count(_boxes_of(expansion, glob)) for expansion in expansions):
        raise UsageError(f"'{printable(glob)}' matches no test{_of(expansions)}: {_why_nothing(expansions, glob)}")


def _check_identifier(expansions: Sequence[Expansion], identifier: str) -> None:
    found = [
        test for expansion in expansions for test in expansion.tests(_boxes_of(expansion, identifier), excluded=True)
    ]
    if any(test.selected for test in found):
        return
    if found:
        test = next((test for test in found if not test.excluded), found[0])
        what = "is unsupported" if test.outcome else "is not run"
        raise UsageError(f"{test.id} {what}: {test.reason}")
    why = _why_nothing(expansions, identifier)
    raise UsageError(f"there is no test '{printable(identifier)}'{_of(expansions)}: {why}")


def _why_nothing(expansions: Sequence[Expansion], glob: str) -> str:
    namespace = expansions[0].namespace
    pins = glob.partition("@")[2]
    if not namespace.knows(namespace.patterns(glob)):
        return namespace.why_nothing(glob)
    if not pins:
        return "the catalog has it, the suite does not; name it without the suite"
    if OF in glob:
        return f"no suite states it with these pins; say --pin {printable(pins.replace(',', ' --pin '))}"
    if expansions[0].name is None:
        return f"the identifiers of IR tests have no pins; say --pin {printable(pins.replace(',', ' --pin '))}"
    return "the suite has no such tests with these pins"


def _of(expansions: Sequence[Expansion]) -> str:
    names = [expansion.name for expansion in expansions if expansion.name]
    if not names:
        return ""
    return f" of suite{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _no_suite(catalog: Catalog, name: str) -> str:
    """The sentence for an argument that is no suite: what else has this name, and how to ask for its tests."""
    axes = (catalog.frameworks, catalog.pipelines, catalog.targets, catalog.workloads)
    for segment, (kind, names) in enumerate(zip(SEGMENT_NAMES, axes, strict=True)):
        if name in names:
            glob = "/".join(["*"] * segment + [name] + ["*"] * (SEGMENTS - segment - 1))
            return f"there is no suite '{name}', but a {kind}; for its tests say '{glob}'"
    return f"there is no suite '{printable(name)}'{did_you_mean(name, catalog.suites)}"
