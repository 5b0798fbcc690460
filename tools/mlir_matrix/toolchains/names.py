"""Select environments and releases by their names on a command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import did_you_mean, is_glob, name_glob, printable, select_known
from mlir_matrix.catalog.pins import PINS_MARK, find_release
from mlir_matrix.catalog.releases import spellings
from mlir_matrix.environments.selection import Selection, of_release
from mlir_matrix.environments.session import Session
from mlir_matrix.plan.session import environments_of


def selections(session: Session, names: Iterable[str]) -> Iterator[Selection]:
    """Yield what names select, in their order. Raise UsageError for an unknown name."""
    for name in names:
        yield from _selected(session, name)


def _selected(session: Session, name: str) -> Iterator[Selection]:
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


def _environment(session: Session, reference: str) -> Selection:
    base = session.pins.meant(reference.partition(PINS_MARK)[0])
    return Selection(name=reference, releases=session.releases(reference), environment=base)
