"""Environments named on a command line of ``matrix container``, with or without pins, or through tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mlir_matrix.catalog.pins import PINS_MARK, read_pins
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import UsageError
from mlir_matrix.names import did_you_mean, printable
from mlir_matrix.session import Session


def chosen(session: Session, names: Iterable[str]) -> tuple[list[ResolvedEnvironment], list[str]]:
    """Return the sealed environments of names, and why some are unavailable. Raise UsageError for an unknown name."""
    references = dict.fromkeys(reference for name in names for reference in _references(session, name))
    return sealed(session, list(references))


def sealed(session: Session, references: Sequence[str]) -> tuple[list[ResolvedEnvironment], list[str]]:
    """Return environments by reference, without anything of this machine, and why some are unavailable."""
    found, reasons = [], []
    for reference in references:
        environment = session.environment(reference, sealed=True)
        if isinstance(environment, ResolvedEnvironment):
            found.append(environment)
        else:
            reasons.append(environment.reason)
    return found, list(dict.fromkeys(reasons))


def reference_of(session: Session, name: str) -> str:
    """Return an environment's name as plans have it, from ``mlir@llvm=19``. Raise UsageError."""
    base, mark, suffix = name.partition(PINS_MARK)
    if base not in session.catalog.environments:
        near = did_you_mean(base, [*session.catalog.environments, *session.catalog.suites])
        raise UsageError(f"there is no environment or suite '{printable(base)}'{near}")
    if not mark:
        return session.pins.reference(base)
    pins = read_pins(session.catalog, suffix.split(","), printable(name))
    return session.pins.override(",".join(f"{key}={value}" for key, value in pins.items())).reference(base)


def _references(session: Session, name: str) -> Iterator[str]:
    from mlir_matrix.expand.select import choose, is_suite  # who names an environment need not wait for this

    base = name.partition(PINS_MARK)[0]
    if base in session.catalog.environments or (is_suite(base) and base not in session.catalog.suites):
        yield reference_of(session, name)
        return
    plan = session.plan(choose(session.catalog, [name], pins=session.pins).tests())
    yield from (action.environment for action in plan.graph.actions.values())
