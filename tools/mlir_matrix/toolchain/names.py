"""Select environments and releases by their names on a command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import PINS_MARK, did_you_mean, is_glob, name_glob, printable, select_known, split_pins
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component, Release
from mlir_matrix.catalog.pins import find_release, release_of
from mlir_matrix.catalog.releases import nearest_release, spellings
from mlir_matrix.environments.package import Provider, provider_of
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.selection import Lockable, of_release
from mlir_matrix.environments.session import Session
from mlir_matrix.plan.session import environments_of, plan_tests, select_tests


def selections(session: Session, names: Iterable[str]) -> Iterator[Lockable]:
    """Yield what names select, in their order. Raise UsageError for an unknown name."""
    for name in names:
        yield from _selected(session, name)


def _selected(session: Session, name: str) -> Iterator[Lockable]:
    catalog = session.catalog
    base, mark, wanted = name.partition(PINS_MARK)
    if is_glob(base) and "/" not in base:
        environments = catalog.environments if not mark or "=" in wanted else ()
        known = dict.fromkeys((*environments, *(() if "=" in wanted else catalog.components)))
        for each in select_known("environment or component", [base], known):
            yield from _selected(session, f"{each}{mark}{wanted}")
    elif base in catalog.environments and (not mark or "=" in wanted):
        yield _environment(session, name if mark else session.pins.reference(base))
    elif base in catalog.components and "/" not in name:
        entry = catalog.components[base]
        if mark and not (pattern := name_glob(wanted)).literal:
            many = [each for each in entry.document.releases if any(map(pattern.matches, spellings(each.release)))]
            if not many:
                find_release(entry, wanted)
            yield from (replace(of_release(session, entry, release), optional=True) for release in many)
        else:
            yield of_release(session, entry, find_release(entry, wanted) if wanted else session.pins.release(base))
    else:
        from mlir_matrix.expand.select import is_suite  # not needed for releases

        if is_suite(base) and base not in catalog.suites:
            near = did_you_mean(base, [*catalog.environments, *catalog.components, *catalog.suites])
            raise UsageError(f"there is no environment, component or suite '{printable(name)}'{near}")
        yield from (_environment(session, reference) for reference in environments_of(session, name))


def _environment(session: Session, reference: str) -> Lockable:
    base = session.pins.meant(split_pins(reference)[0])
    return Lockable(name=reference, releases=session.releases(reference), environment=base)


def tool_places(
    current: Session, holders: Sequence[Entry[Component]], name: str, wanted: str
) -> list[tuple[Entry[Component], Release]]:
    """Return the releases that may have a tool. Several components may have it, but not each has the wanted release."""
    pinned = [entry for entry in holders if entry.name in current.pins.overrides]
    places, errors = [], []
    # A pin selects its component.
    for entry in holders if wanted else pinned or holders:
        try:
            places += [(entry, release) for release in _releases(current, entry, name, wanted)]
        except UsageError as error:
            errors.append(error)
    if not places:
        raise errors[0]
    return places


def places_of_test(
    current: Session, holders: Sequence[Entry[Component]], test: str, tell: Callable[[str], object]
) -> list[tuple[Entry[Component], Release]]:
    """Return the releases of components that the actions of a test use, in their order. Raise UsageError if there is none.

    A release that comes as wheels has no programs. If the test uses no other, the nearest release with programs stands for it, and
    ``tell`` gets a line about it.
    """
    plan = plan_tests(current, select_tests(current, [test]))
    names = {entry.name for entry in holders}
    used = {
        (entry.name, release.release): (entry, release)
        for environment in dict.fromkeys(action.environment for action in plan.graph.actions.values())
        for entry, release in current.releases(environment)
        if entry.name in names
    }
    if not used:
        raise UsageError(f"no action of {printable(test)} uses {' or '.join(sorted(names))}")
    with_programs = [(entry, release) for entry, release in used.values() if not _is_wheel(entry, release)]
    if with_programs:
        return with_programs
    found: dict[tuple[str, str], tuple[Entry[Component], Release]] = {}
    for entry, wheel in used.values():
        release = wheel
        programs = [each for each in entry.document.releases if not _is_wheel(entry, each)]
        near = nearest_release((each.release for each in programs), wheel.release)
        if near is not None:
            tell(f"{entry.name} {wheel.release} comes without programs; the nearest release with programs is {near}")
            release = release_of(entry, near)
        found[entry.name, release.release] = entry, release
    return list(found.values())


def _is_wheel(entry: Entry[Component], release: Release) -> bool:
    """Return whether a release has no programs, unlike others of its component: it is a wheel, and they are packages or built."""
    return bool(entry.document.programs) and provider_of(entry.document, release) is Provider.PYPI


def _releases(current: Session, entry: Entry[Component], name: str, wanted: str) -> list[Release]:
    """Return the wanted release, else the pinned one and those that environments pin.

    Each release of a host program names its own programs (``python3.11``): the one with this name is returned. Of a component
    whose programs are packages or built, wheels are left out: they have no programs.
    """
    if wanted:
        return [find_release(entry, wanted)]
    if entry.name in current.pins.overrides:
        return [release_of(entry, current.pins.overrides[entry.name])]
    pinned = current.catalog.default_pins("")[entry.name]
    named = [each for each in entry.document.releases if name in each.programs]
    if named and provider_of(entry.document, release_of(entry, pinned)) is Provider.HOST:
        return named
    own = [
        dict(pins)[entry.name]
        for known in current.catalog.known_good
        for pins in known.document.environments.values()
        if entry.name in pins
    ]
    found = [release_of(entry, each) for each in dict.fromkeys([pinned, *own])]
    return [each for each in found if not _is_wheel(entry, each)] or found


def tool_programs(current: Session, environment: ResolvedEnvironment, name: str) -> Iterator[Path]:
    for root in environment.roots(current.home.packages):
        script = Path(root, ".matrix", "bin", name)
        if script.is_file():
            yield script
    for site in environment.sites(current.home.packages):
        found = sorted(Path(site).glob(f"**/{name}"))
        yield from (path for path in found if path.is_file() and os.access(path, os.X_OK))
    for program in environment.host_programs():
        label, _, path = program.partition("=")
        if label.partition("@")[0] == name:
            yield Path(path)
