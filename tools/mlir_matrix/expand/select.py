"""Resolve the arguments of a command: suites by name, tests by glob or identifier.

- None: the default suite.
- ``SUITE``: a suite. Several suites are united, and a test belongs to the first suite that has it.
- ``GLOB`` or a test's identifier (anything with a ``/`` or a glob character). With suites, it selects matching tests of these
  suites. Alone, it selects matching tests of the whole catalog, so that a test can run even if no suite lists it. Tests with a
  property (``…/matmul~scaling``) come from all suites that state properties.

A glob selects unsupported tests, too, with their reasons. A test named by its identifier must be able to run. Pins after an
identifier (``…/asin@llvm=19``) are those that a suite varies, in any order and by any name of the release. Without a suite they
pin the component for that test, and ``…@llvm=*`` stands for all releases of the component.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import (
    OF,
    SEGMENTS,
    NameGlob,
    check_known,
    did_you_mean,
    in_order,
    is_glob,
    is_name,
    lacking_devices,
    name_glob,
    printable,
    split_pins,
    test_glob,
)
from mlir_matrix.catalog.catalog import DEFAULT_SUITE, Catalog
from mlir_matrix.catalog.pins import Pins, find_release, read_pins
from mlir_matrix.catalog.releases import find, spellings
from mlir_matrix.expand.expansion import Expansion, Test
from mlir_matrix.expand.routes import X86_LEVELS
from mlir_matrix.expand.suite import everything, expand, varied
from mlir_matrix.expand.test_sets import MOST_TESTS, NO_PINS, TestPattern


@dataclass(frozen=True)
class Choice:
    """The chosen expansions, and the patterns of the globs in each of them (None: all)."""

    expansions: tuple[Expansion, ...]
    selectors: tuple[tuple[TestPattern, ...] | None, ...]

    def ids(self) -> Iterator[str]:
        """Return the identifiers of the chosen tests, also of unsupported ones, each once."""
        if len(self.expansions) == 1:
            return self.expansions[0].ids(self.selectors[0])
        return iter(dict.fromkeys(chain.from_iterable(map(Expansion.ids, self.expansions, self.selectors))))

    def tests(self, *, excluded: bool = False) -> Iterator[Test]:
        """Return the chosen tests, also unsupported ones, each once; with ``excluded`` also those that the suites leave out.

        If one suite leaves out a test that another suite selects, the test is selected.
        """
        if len(self.expansions) == 1:
            return self.expansions[0].tests(self.selectors[0], excluded=excluded)
        return self._united(excluded)

    def _united(self, excluded: bool) -> Iterator[Test]:
        seen = set[str]()
        for left_out in (False, True) if excluded else (False,):
            for expansion, patterns in zip(self.expansions, self.selectors, strict=True):
                for test in expansion.tests(patterns, excluded=left_out):
                    if test.id not in seen and (test.excluded or not left_out):
                        seen.add(test.id)
                        yield test

    def count(self) -> int:
        """Count the chosen tests, also unsupported ones."""
        if len(self.expansions) == 1:
            return self.expansions[0].count(self.selectors[0])
        return sum(1 for _ in self.ids())

    def test(self, identifier: str) -> Test | None:
        """Return a test of the expansions by its identifier: a selected one, else one left out, else None."""
        found = [test for expansion in self.expansions if (test := expansion.test(identifier))]
        return next((test for test in found if not test.excluded), found[0] if found else None)


def choose(
    catalog: Catalog, arguments: Sequence[str] = (), default: str = DEFAULT_SUITE, pins: Pins | None = None
) -> Choice:
    """Resolve the arguments of a command. Raise UsageError for an argument that names nothing or a test that cannot run."""
    suites = [argument for argument in arguments if is_suite(argument)]
    globs = [argument for argument in arguments if not is_suite(argument)]
    for name in suites:
        if name not in catalog.suites:
            raise UsageError(_no_suite(catalog, name))
    if suites or not globs:
        names = dict.fromkeys(suites or [default])
        if default in names and default not in catalog.suites:
            raise UsageError(f"the catalog has no suite '{default}', the default; name another one")
        expansions = tuple(expand(catalog, catalog.suites[name], pins) for name in names)
    else:
        expansions = (whole_catalog(catalog, globs, default, pins),)
        if any(OF in glob for glob in globs):
            expansions += tuple(_stating(catalog, default, pins))
    if not globs:
        return Choice(expansions, (None,) * len(expansions))
    for glob in globs:
        _check(expansions, glob)
    selectors = []
    for number, expansion in enumerate(expansions):
        # From suites that state properties, the globs select only tests with a property.
        asked = [glob for glob in globs if suites or not number or OF in glob]
        selectors.append(tuple(pattern for glob in asked for pattern in _patterns(expansion, glob)))
    chosen = Choice(expansions, tuple(selectors))
    if len(expansions) == 1 and (count := chosen.count()) > MOST_TESTS:
        raise UsageError(f"{' '.join(globs)}: {count} tests match; a plan can have {MOST_TESTS}, so name fewer cells")
    return chosen


def suites_under(catalog: Catalog, pins: Pins) -> list[str]:
    """Return the suites, the default one first, without those that run over the releases of a component that is pinned."""
    names = sorted(catalog.suites, key=lambda name: name != DEFAULT_SUITE)
    return [name for name in names if not list(varied(catalog, catalog.suites[name], pins))]


def identifiers(expansions: Sequence[Expansion], arguments: Sequence[str]) -> list[str]:
    """Return identifiers unchanged, and those of the tests that globs match, also of tests that are left out."""
    found: dict[str, None] = {}
    for argument in arguments:
        if not is_glob(argument):
            found[argument] = None
            continue
        tests = (each.tests(_patterns(each, argument), excluded=True) for each in expansions)
        names = [test.id for test in chain.from_iterable(tests)]
        if not names:
            raise UsageError(_matches_nothing(expansions, argument))
        found.update(dict.fromkeys(names))
    return list(found)


def find_test(expansion: Expansion, identifier: str) -> Test:
    """Return a test of an expansion, also one that is left out. Raise UsageError that says why there is none."""
    test = expansion.test(identifier)
    if test is not None:
        return test
    shown = printable(identifier)
    namespace = expansion.namespace
    if identifier.count("/") != SEGMENTS - 1:
        raise UsageError(f"'{shown}' is not the identifier of a test: framework/pipeline/target/workload")
    if expansion.name and namespace.knows(namespace.exact(identifier)):
        raise UsageError(f"no rule of suite {expansion.name} puts {shown} in")
    raise UsageError(f"there is no test '{shown}': {namespace.why_nothing(identifier)}")


def granted(
    catalog: Catalog, tests: Iterable[Test], devices: Collection[str], x86_level: Callable[[], str], machine: str = ""
) -> Iterable[Test]:
    """Skip the tests whose target declares a device that the operator does not grant, or whose code this CPU cannot run.

    ``machine``: its architecture, as ``uname -m`` prints it; if it is empty, that of targets is not compared. ``x86_level`` is
    called only if a test has code for a level of x86-64. It returns an empty string on other machines.
    """
    elsewhere = {
        name: f"target {name} runs on {' or '.join(entry.document.machine)}; this machine is {machine}"
        for name, entry in catalog.targets.items()
        if machine and machine not in entry.document.machine
    }
    return (_executable(catalog, test, x86_level, elsewhere) for test in _granted(catalog, tests, devices))


def _executable(catalog: Catalog, test: Test, x86_level: Callable[[], str], elsewhere: Mapping[str, str]) -> Test:
    """Skip a test whose code this CPU cannot run. An emulator can run it."""
    if not test.selected or not test.executes:
        return test
    if test.target in elsewhere:
        reason = elsewhere[test.target]
        return replace(test, outcome=Outcome.SKIPPED, selected=False, reason=reason, expectation=None)
    if test.route is None or catalog.targets[test.target].document.runner:
        return test
    if not test.route.beyond(X86_LEVELS[0]) or not (own := x86_level()) or not (beyond := test.route.beyond(own)):
        return test
    reason = f"{beyond}; the CPU of this machine has {own}"
    return replace(test, outcome=Outcome.SKIPPED, selected=False, reason=reason, expectation=None)


def _granted(catalog: Catalog, tests: Iterable[Test], devices: Collection[str]) -> Iterable[Test]:
    needed = {name: lacking_devices(entry.document.devices, devices) for name, entry in catalog.targets.items()}
    lacking = {name: globs for name, globs in needed.items() if globs}
    return map(partial(_withheld, lacking), tests) if lacking else tests


def _withheld(lacking: Mapping[str, Sequence[str]], test: Test) -> Test:
    targets = (test.target, test.tested_property.cell[2] if test.tested_property and test.tested_property.cell else "")
    target = next((name for name in targets if name in lacking), None)
    if target is None or not test.selected:
        return test
    needs, one = lacking[target], len(lacking[target]) == 1
    reason = f"target {target} needs {' and '.join(needs)}, which {'is' if one else 'are'} not granted; matrix run "
    reason += f"{' '.join(f'--device {shlex.quote(device)}' for device in needs)} grants {'it' if one else 'them'}"
    return replace(test, outcome=Outcome.SKIPPED, selected=False, reason=reason, expectation=None)


def _stating(catalog: Catalog, default: str, pins: Pins | None) -> Iterator[Expansion]:
    """Return the suites that state properties, the default one first. Leave out those that vary a pinned component."""
    for suite in sorted(catalog.suites.values(), key=lambda each: each.name != default):
        if suite.document.properties and not (pins and list(varied(catalog, suite, pins))):
            yield expand(catalog, suite, pins)


def whole_catalog(
    catalog: Catalog, globs: Iterable[str], default: str = DEFAULT_SUITE, pins: Pins | None = None
) -> Expansion:
    """Return all tests of the catalog, also those with the pins that globs name. Raise UsageError for unknown releases."""
    found: dict[frozenset[tuple[str, str]], str] = {}
    for glob in globs:
        for named in _named_pins(catalog, glob):
            meant = read_pins(catalog, named.split(","), f"'{printable(glob)}'")
            found.setdefault(frozenset(meant.items()), named)
    return everything(catalog, default, pins, (*NO_PINS, *found.values()))


def _named_pins(catalog: Catalog, glob: str) -> Iterator[str]:
    """Return the pins that a test glob names: one for each choice of releases that match ``llvm=1*``; none without pins."""
    named = in_order(split_pins(glob)[1])
    if not named or name_glob(named).literal:
        yield from filter(None, (named,))
        return
    choices = []
    for component, _, pattern in (pair.partition("=") for pair in re.split(r",(?![^{]*\})", named)):
        if not (is_name(component) and pattern):
            raise UsageError(f"'{printable(glob)}': expected COMPONENT=GLOB after the '@', e.g. llvm=1*")
        check_known("component", [component], catalog.components, f"'{printable(glob)}': ")
        releases = [release.release for release in catalog.components[component].document.releases]
        short = [_shortest(name_glob(pattern), release, releases) for release in releases]
        if not any(short):
            find_release(catalog.components[component], pattern)
        choices.append([f"{component}={name}" for name in short if name])
    yield from (in_order(",".join(pairs)) for pairs in itertools.product(*choices))


def _shortest(pattern: NameGlob, release: str, releases: Sequence[str]) -> str:
    """Return the shortest name that stands for this release and matches a pattern; empty if there is none."""
    names = [name for name in spellings(release) if pattern.matches(name) and find(releases, name) == release]
    return min(names, key=len, default="")


def is_suite(argument: str) -> bool:
    """Return whether an argument names a suite: no ``/``, ``~``, ``@`` and no glob character."""
    return not any(character in argument for character in f"/@{OF}*?[]{{}}")


def is_identifier(glob: str) -> bool:
    """Return whether a glob names one test: four segments, no glob character."""
    found = test_glob(glob)
    exact = all(len(parts) == SEGMENTS and all(part.literal for part in parts) for parts in found.segments)
    return exact and all(part is None or part.literal for part in (found.property, found.pins))


def _patterns(expansion: Expansion, glob: str) -> tuple[TestPattern, ...]:
    """Return the patterns of a glob. In the whole catalog, a glob without pins does not match the pins of other globs.

    There, only a glob with a ``:`` matches members of corpora.
    """
    if expansion.name is not None:
        return expansion.namespace.patterns(expansion.spelled(glob))
    patterns = expansion.namespace.included(expansion.spelled(glob))
    named = map(expansion.spelling, _named_pins(expansion.connector.catalog, glob))
    takes = frozenset(tuple(named) or NO_PINS).__contains__
    return tuple(replace(pattern, pins=takes) for pattern in patterns)


def _check(expansions: Sequence[Expansion], glob: str) -> None:
    """Refuse a glob that matches no test, and an identifier of a test that cannot run."""
    shown = printable(glob)
    if not is_identifier(glob):
        if not any(expansion.count(_patterns(expansion, glob)) for expansion in expansions):
            raise UsageError(_matches_nothing(expansions, glob))
        return
    found = [test for expansion in expansions for test in expansion.tests(_patterns(expansion, glob), excluded=True)]
    if any(test.selected for test in found):
        return
    if found:
        test = next((test for test in found if not test.excluded), found[0])
        state = "is unsupported" if test.outcome else "is not run"
        raise UsageError(f"{test.id} {state}: {test.reason}")
    raise UsageError(f"there is no test '{shown}'{_of(expansions)}: {_why_nothing(expansions, glob)}")


def _matches_nothing(expansions: Sequence[Expansion], glob: str) -> str:
    return f"'{printable(glob)}' matches no test{_of(expansions)}: {_why_nothing(expansions, glob)}"


def _why_nothing(expansions: Sequence[Expansion], glob: str) -> str:
    namespace = expansions[0].namespace
    _, pins = split_pins(glob)
    fix = f"pin them by --pin {printable(pins.replace(',', ' --pin '))}"
    if not namespace.knows(namespace.patterns(glob)):
        return namespace.why_nothing(glob)
    if OF in glob:
        return f"no suite states it with these pins; {fix}" if pins else "no suite states this property for such a test"
    if not pins:
        return "the catalog has it, but the suite does not; name it without the suite"
    return "the suite has no such tests with these pins"


def _of(expansions: Sequence[Expansion]) -> str:
    names = [expansion.name for expansion in expansions if expansion.name]
    if not names:
        return ""
    return f" of suite{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _no_suite(catalog: Catalog, name: str) -> str:
    """Return the sentence for an unknown suite: another entry of that name, if any, and how to select its tests."""
    if over := catalog.over.get(("suites", name)):
        return over
    if name in catalog.without_data:
        return f"suite {name}: {catalog.without_data[name]}"
    for segment, (axis, names) in enumerate(catalog.axes.items()):
        if name in names:
            glob = "/".join(["*"] * segment + [name] + ["*"] * (SEGMENTS - segment - 1))
            return f"there is no suite '{name}', but a {axis}; select its tests by '{glob}'"
    return f"there is no suite '{printable(name)}'{did_you_mean(name, catalog.suites)}"
