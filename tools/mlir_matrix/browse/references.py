"""Find which entries of a catalog name which others, and which suites test them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import SEGMENT_NAMES
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import Pipeline, SourceForm, Target, Tool, Workload, used_steps
from mlir_matrix.catalog.models.machines import Machine
from mlir_matrix.catalog.models.suites import Suite
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.expand.select import choose

#: The kinds of entries that have a name, in the order of a test's life: the plural, and one of them.
KINDS: Mapping[str, str] = {
    "workloads": "workload",
    "frameworks": "framework",
    "pipelines": "pipeline",
    "targets": "target",
    "steps": "step",
    "kinds": "kind",
    "suites": "suite",
    "sources": "source",
    "corpora": "corpus",
    "machines": "machine",
    "environments": "environment",
    "components": "component",
}


class Reference(NamedTuple):
    """A place in a file that names an entry of another file."""

    #: Of the entry that is named: a key of :data:`KINDS`, and its name.
    kind: str
    name: str
    #: Of the entry that names it.
    user_kind: str
    user: str
    #: ``file:line:column``.
    position: str


#: What a file names: the kind, the name, and the keys of the place.
Named = tuple[str, str, tuple[str | int, ...]]
#: Keys of files that name entries of one kind.
_KEYS = {
    "environment": "environments",
    "linker_environment": "environments",
    "runner_environment": "environments",
    "accepts": "kinds",
    "gives": "kinds",
    "emits": "kinds",
    "entry": "kinds",
    "source": "sources",
    "components": "components",
}


def entries_of(catalog: Catalog, kind: str) -> Mapping[str, Entry[Any]]:
    """Return the entries of a kind, sorted by name."""
    found: Mapping[str, Entry[Any]] = getattr(catalog, kind)
    return found


def references(catalog: Catalog) -> Iterator[Reference]:
    """Yield all references between entries, except those by globs, as in blocks of suites."""
    for user_kind in KINDS:
        for name, entry in entries_of(catalog, user_kind).items():
            for kind, named, keys in _named_by(entry.document):
                yield Reference(kind, named, user_kind, name, entry.source.position(*keys))


def count_by_suite(catalog: Catalog, kind: str, name: str, pins: Pins) -> dict[str, int]:
    """Return how many tests of each suite have an entry as a segment of their identifier; suites without any are left out."""
    segment = KINDS[kind]
    if segment not in SEGMENT_NAMES:
        return {}
    glob = "/".join(name if each == segment else "*" for each in SEGMENT_NAMES)
    counts = {}
    for suite in catalog.suites:
        try:
            counts[suite] = choose(catalog, [suite, glob], pins=pins).count()
        except UsageError:
            # No test of the suite matches.
            continue
    return counts


def _named_by(document: Any) -> Iterator[Named]:
    """Yield the entries that a file names."""
    if not isinstance(document, SourceForm):
        yield from _in_keys(document)
    if isinstance(document, Pipeline):
        for kind, uses in document.entry.items():
            yield from (("steps", use.name, use.keys) for use in used_steps(uses, "entry", kind))
        yield from (("steps", use.name, use.keys) for use in used_steps(document.steps, "steps"))
    elif isinstance(document, Target):
        yield from (("steps", use.name, use.keys) for use in used_steps(document.codegen, "codegen"))
    elif isinstance(document, Suite):
        yield from (("suites", suite, ("suites", at)) for at, suite in enumerate(document.suites))
    elif isinstance(document, Machine):
        yield from (("suites", suite, ("wants", "suites", at)) for at, suite in enumerate(document.wants.suites))
    if isinstance(document, (Tool, Workload)):
        for at, requirement in enumerate(document.requires):
            yield "components", requirement.component, ("requires", at)


def _in_keys(document: Any) -> Iterator[Named]:
    """Yield what the keys of :data:`_KEYS` name: one name, a list, or the keys of a mapping."""
    for key, kind in _KEYS.items():
        # A default is named by no file.
        value = getattr(document, key) if key in document.model_fields_set else None
        if value is None:
            continue
        if isinstance(value, str):
            yield kind, value, (key,)
        elif isinstance(value, Mapping):
            yield from ((kind, name, (key, name)) for name in value)
        else:
            yield from ((kind, name, (key, at)) for at, name in enumerate(value))
