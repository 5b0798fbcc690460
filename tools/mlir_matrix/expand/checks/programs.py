"""Check foreign forms of programs, corpora, and workloads in such a form."""

from __future__ import annotations

from mlir_matrix.base.names import MEMBER
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.base import Corpus, SourceForm, Workload
from mlir_matrix.expand.checks import tools
from mlir_matrix.expand.checks.checker import Checker

#: Keys of a workload that a program in a foreign form declares by its own code.
_OWN = ("dims", "sizes", "flops", "dynamic", "inputs", "outputs", "sources", "absent")


def source_files(catalog: Catalog) -> set[str]:
    """Return the files in a workload's folder that frameworks read."""
    return {file for entry in catalog.frameworks.values() for file in entry.document.emits.values()}


def check(checker: Checker) -> None:
    """Check all forms and corpora."""
    sources = source_files(checker.catalog)
    for form in checker.catalog.sources.values():
        _form(checker, form, sources)
    for corpus in checker.catalog.corpora.values():
        _user(checker, corpus, corpus.document.source)


def _form(checker: Checker, form: Entry[SourceForm], sources: set[str]) -> None:
    document = form.document
    checker.known(form, "source file of a framework", document.gives, sources, "gives")
    if document.prepares(form.files):
        tools.check(checker, form, {"source", "program", "interface", "arguments", "expected"})
        checker.known(form, "environment", document.environment, checker.catalog.environments, "environment")


def check_program(checker: Checker, workload: Entry[Workload]) -> None:
    """Check a workload whose program is in a foreign form."""
    document = workload.document
    if MEMBER in workload.name:
        return  # members share the document of the corpus
    for key in _OWN:
        if getattr(document, key):
            checker.wrong(workload, f"'{key}' has no effect with 'source': the program's own code declares it", key)
    _user(checker, workload, str(document.source))


def _user(checker: Checker, user: Entry[Corpus] | Entry[Workload], form: str) -> None:
    if not checker.known(user, "source", form, checker.catalog.sources, "source"):
        return
    entry = checker.catalog.sources[form]
    for name, value in user.document.parameters.items():
        tools.argument(checker, user, entry, name, value, ("with", name))
    environment = user.document.environment
    if environment is not None:
        checker.known(user, "environment", environment, checker.catalog.environments, "environment")
        if entry.document.prepares(entry.files):
            checker.wrong(user, "'environment' has no effect: only a target that judges takes it", "environment")
