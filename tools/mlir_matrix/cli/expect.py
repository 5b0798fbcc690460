"""``matrix expect``: propose the expectations of a suite, and the members of a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from mlir_matrix import __version__
from mlir_matrix.catalog.load import load
from mlir_matrix.catalog.pins import PINS_MARK, Pins
from mlir_matrix.cli import options
from mlir_matrix.cli.lazy import verb
from mlir_matrix.cli.output import note, show, warn
from mlir_matrix.errors import UsageError
from mlir_matrix.execute.options import Limits
from mlir_matrix.expand.select import choose
from mlir_matrix.files import write_text
from mlir_matrix.judge.expectations import (
    FileChange,
    expectations_change,
    expected_by,
    members_change,
    propose,
)
from mlir_matrix.judge.results import TestResult
from mlir_matrix.judge.run import run_plan
from mlir_matrix.names import check_known, printable
from mlir_matrix.paths import find_home, repository
from mlir_matrix.report.expectations_text import lines
from mlir_matrix.report.merge import read_results, result_of
from mlir_matrix.report.progress import shown
from mlir_matrix.report.schemas.expect import Expect, ExpectationsChange
from mlir_matrix.session import Session
from mlir_matrix.validation import validate, validate_sources


@verb(
    "expect",
    "matrix expect smoke",
    "matrix expect smoke 'jax/**' --write",
    "matrix expect smoke --results results.json --format json",
)
@click.argument("name", metavar="SUITE|CORPUS")
@click.argument("globs", nargs=-1, metavar="[GLOB|ID]...")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Use the results in FILE, by matrix run SUITE --results FILE; run nothing.",
)
@click.option("--write", is_flag=True, help="Write the files. Without this option, only show the patch.")
@options.output_format("text", "json")
@options.catalog
@options.cache
@options.limits
@options.quiet
def command(
    name: str, globs: tuple[str, ...], results: Path | None, write: bool, form: str, catalogs: tuple[Path, ...],
    cache_dir: Path | None, limits: Limits, quiet: bool,
) -> int:  # fmt: skip
    """Run a suite and propose the patch of matrix/expectations/SUITE.yaml, grouped by reason.

    Tests that fail are added, tests that pass are taken out. Time-outs, infra-errors and tests in quarantine or with a rule in
    the suite itself are listed and not written. With GLOB, only those tests run; all others keep their expectations. For a corpus
    whose members are named in members.txt, propose that list first.

    Exit code 1: a file would change, and nothing was written.
    """
    roots = [repository(), *catalogs]
    home = find_home(cache_dir=cache_dir)
    catalog = load(roots)
    corpus = catalog.corpora.get(name)
    is_listed = corpus is not None and corpus.document.folder is None
    check_known("suite or listed corpus", [] if is_listed else [name], catalog.suites)
    document: Expect = {
        "schema": "mlir-matrix/expect/v1",
        "summary": {"new": 0, "changed": 0, "gone": 0, "left": 0},
        "name": name,
        "written": False,
    }
    files: list[FileChange] = []
    if corpus and is_listed:
        # Rules may name members of a list that is not written yet.
        validate_sources(catalog)
        current = Session(catalog=catalog, home=home, pins=Pins(catalog))
        file, document["members"] = members_change(current, corpus, limits)
        files.append(file)
        if write and file.patch:
            write_text(file.path, file.text)
            catalog = load(roots)
    # A suite of the same name needs the list.
    if name in catalog.suites and (write or not any(file.patch for file in files)):
        catalog = validate(catalog)
        warn(*catalog.over.values())
        check_known("suite", [name], catalog.suites)
        current = Session(catalog=catalog, home=home, pins=Pins(catalog))
        file, found = _expectations(current, name, globs, results, limits, quiet=quiet)
        files.append(file)
        document["expectations"] = found
        counts = Counter({each["state"]: 0 for each in found["changes"]})
        for each in found["changes"]:
            counts[each["state"]] += len(each["tests"])
        document["summary"] = {
            "new": counts["new"], "changed": counts["changed"], "gone": counts["gone"], "left": len(found["left"]),
        }  # fmt: skip
    stale = [file for file in files if file.patch]
    document["written"] = write and bool(stale)
    for file in stale if write else ():
        write_text(file.path, file.text)
    show(form, document, lines(document.get("members"), document.get("expectations")))
    for file in stale:
        note(f"{file.path}: {'written' if write else 'not written; --write would'}")
    return int(bool(stale) and not write)


def _expectations(
    current: Session, name: str, globs: tuple[str, ...], results: Path | None, limits: Limits, *, quiet: bool
) -> tuple[FileChange, ExpectationsChange]:
    old = current.catalog.expectations.get(name)
    # Rules of the file itself must not decide: one may name a test that no longer exists.
    others = {each: entry for each, entry in current.catalog.expectations.items() if each != name}
    catalog = replace(current.catalog, expectations=others)
    current = replace(current, catalog=catalog, pins=Pins(catalog))
    tests = {test.id: test for test in choose(catalog, [name]).tests() if test.selected}
    if results:
        found = _read(results, current)
        chosen = {test.id for test in choose(catalog, [name, *globs]).tests()} if globs else found.keys()
        found = {test: result for test, result in found.items() if test in chosen}
        if found.keys().isdisjoint(tests):
            raise UsageError(
                f"{results}: holds no test of suite {name}; make it with: matrix run {name} --results FILE"
            )
    else:
        found = _run(current, [name, *globs], limits, quiet=quiet)
    proposal = propose(expected_by(old.document) if old else {}, tests, found)
    return expectations_change(catalog.suites[name], old, proposal)


def _run(current: Session, arguments: list[str], limits: Limits, *, quiet: bool) -> dict[str, TestResult]:
    plan = current.plan(current.tests(arguments))
    with shown(len(plan.verdicts), quiet=quiet) as listener:
        run = run_plan(current, plan, limits=limits, fail_fast=False, listener=listener)
    if run.interruption is not None:
        raise run.interruption
    return {result.id: result for result in run.results}


def _read(file: Path, current: Session) -> dict[str, TestResult]:
    """Read results. Raise UsageError for those of another version, and of other releases than the default ones."""
    document = read_results(file)
    if (made := document["run"]["version"]) != __version__:
        raise UsageError(f"{file}: made by version {printable(made)}; this is {__version__}: run the suite again")
    found = {entry["id"]: result_of(entry) for entry in document["tests"]}
    for result in found.values():
        for reference in result.environments:
            _check_releases(file, current, reference, result.pins)
    return found


def _check_releases(file: Path, current: Session, reference: str, pins: Mapping[str, str]) -> None:
    if PINS_MARK in reference:
        return  # the suite itself varies them
    check_known("environment", [reference], current.catalog.environments, f"{file}: ")
    for component, release in current.pins_of(reference).items():
        if release not in (made := pins.get(component, release)):
            raise UsageError(
                f"{file}: made with {component} {printable(made)}; expectations are those of {release}: run the suite again"
            )
