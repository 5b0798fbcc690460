"""Findings that need no report, in the releases in which they are known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.load import read_document
from mlir_matrix.catalog.messages import Problems
from mlir_matrix.catalog.models.base import Conditions
from mlir_matrix.catalog.models.suites import KnownFinding, KnownFindings
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.checks.checker import Checker
from mlir_matrix.expand.checks.toolchains import check_known_findings
from mlir_matrix.fuzz.routes import ENVIRONMENT


@dataclass(frozen=True)
class Known:
    """The known findings of a catalog and of a file."""

    findings: Sequence[KnownFinding]
    catalog: Catalog
    pins: Pins

    def link(self, key: str, steps: Iterable[str]) -> str:
        """Return where a finding is reported; empty if it is not known in the releases of these steps.

        ``steps``: what may be wrong. What is no step of the catalog is of a composed route.
        """
        known = (each for each in self.findings if each.key == key)
        return next((each.link for each in known if any(self._is_in_use(each, step) for step in steps)), "")

    def _is_in_use(self, conditions: Conditions, step: str) -> bool:
        entry = self.catalog.steps.get(step)
        environment = entry.document.environment if entry else ENVIRONMENT
        pins = self.pins.of_step(step)
        used = {name: pins.release(name, environment) for name in (*conditions.when, *conditions.carries)}
        return all(conditions.holds(name, release.release, release.carries) for name, release in used.items())


def read_known(session: Session, file: Path | None) -> Known:
    """Return the known findings of a session's catalog and of a file. Raise CatalogError."""
    entries = [*session.catalog.known_findings]
    if file is not None:
        problems = Problems()
        found = read_document(file, str(file), KnownFindings, problems)
        if found is not None:
            source, document = found
            entries.append(
                Entry(name=file.name, document=document, source=source, root=file.parent, folder=file.parent)
            )
            check_known_findings(Checker(session.catalog, problems), entries[-1])
        problems.raise_if_any()
    findings = [each for entry in entries for each in entry.document.findings]
    return Known(findings, session.catalog, session.pins)
