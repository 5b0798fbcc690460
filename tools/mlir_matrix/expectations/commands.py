"""``matrix expect`` and ``matrix conflicts``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix import __version__
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import write_text
from mlir_matrix.base.names import PINS_MARK, check_known, printable
from mlir_matrix.base.paths import Home, find_home, repository
from mlir_matrix.base.text import counted
from mlir_matrix.catalog.load import load
from mlir_matrix.catalog.pins import Pins, read_pins
from mlir_matrix.cli import options
from mlir_matrix.cli.output import note, show, warn_left_out
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.checks.validate import validate, validate_sources
from mlir_matrix.expand.select import choose
from mlir_matrix.expectations.conflicts import by_releases, find_conflicts, observe, read_outcomes
from mlir_matrix.expectations.documents import Expect
from mlir_matrix.expectations.expectations import FileChange, expectations_change, members_change
from mlir_matrix.expectations.report import lines
from mlir_matrix.plan.request import LOCAL, Limits
from mlir_matrix.plan.session import plan_tests, select_tests
from mlir_matrix.results.merge import read_results, result_of
from mlir_matrix.results.results import TestResult
from mlir_matrix.results.run_plan import run_all

if TYPE_CHECKING:
    from mlir_matrix.catalog.catalog import Catalog
    from mlir_matrix.expectations.documents import ConflictPair, Conflicts, RepeatedPair


@verb(
    "expect",
    "matrix expect smoke",
    "matrix expect smoke 'jax/**' --write",
    "matrix expect smoke --results results.json --format json",
    "matrix expect torch-mlir --from xfail_sets.py",
)
@click.argument("name", metavar="SUITE|CORPUS")
@click.argument("globs", nargs=-1, metavar="[GLOB|ID]...")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Use the results in FILE, by matrix run SUITE --results FILE; run nothing.",
)
@click.option(
    "--from",
    "upstream",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare with the sets of expected failures in a Python file of upstream; 'xfail_sets' of the suite names them.",
)
@click.option(
    "--write", is_flag=True, help="Write the files; not with --from. Without this option, only show the patch."
)
@options.output_format("text", "json")
@options.catalog
@options.cache
@options.limits
@options.quiet
def expect_command(
    name: str, globs: tuple[str, ...], results: Path | None, upstream: Path | None, write: bool, form: str,
    catalogs: tuple[Path, ...], cache_dir: Path | None, limits: Limits, quiet: bool,
) -> int:  # fmt: skip
    """Run a suite and propose the patch of matrix/expectations/SUITE.yaml, grouped by reason.

    Add tests that fail, and remove tests that pass. List, but do not write, time-outs, infra-errors, and tests in quarantine or
    with a rule in the suite itself. With GLOB, run only those tests; all others keep their expectations. For a corpus whose
    members are named in members.txt, propose that list first.

    With --from, show instead which tests fail only here, by reason, and which pass only here.

    Exit code 1: a file would change, and nothing was written; with --from, a test differs from what upstream expects.
    """
    roots = [repository(), *catalogs]
    home = find_home(cache_dir=cache_dir)
    catalog = load(roots)
    listed = _listed_corpora(catalog, name)
    if upstream:
        return _compare(catalog, home, name, globs, results, upstream, limits, form, quiet, write=write)
    if other := next((each for each in globs if each in catalog.suites), ""):
        raise UsageError(f"'{other}' is another suite; choose tests of {name} by a glob or an identifier")
    document = _empty_document(name)
    stale: list[FileChange] = []

    def keep(file: FileChange) -> None:
        if file.patch:
            stale.append(file)
            if write:
                write_text(file.path, file.text)

    if name in listed:
        # Without checks of suites, whose rules may name members of a list that is not written yet.
        validate_sources(catalog)
        current = Session(catalog=catalog, home=home, pins=Pins(catalog))
        file, document["members"] = members_change(current, catalog.corpora[name], limits)
        keep(file)
        catalog = load(roots) if stale and write else catalog
    # A suite of the same name needs the list.
    if name in catalog.suites and (write or not stale):
        catalog = validate(catalog)
        warn_left_out(catalog)
        old = catalog.expectations.get(name)
        # Ignore the rules of the file itself, because one may name a test that no longer exists.
        others = {each: entry for each, entry in catalog.expectations.items() if each != name}
        catalog = replace(catalog, expectations=others)
        current = Session(catalog=catalog, home=home, pins=Pins(catalog))
        found = _results(current, name, globs, results, limits, quiet)
        tests = [test for test in choose(catalog, [name]).tests() if test.selected]
        file, document["expectations"] = expectations_change(catalog.suites[name], old, tests, found)
        keep(file)
        for each in document["expectations"]["changes"]:
            document["summary"][each["state"]] += len(each["tests"])
        document["summary"]["left"] = len(document["expectations"]["left"])
    document["written"] = write and bool(stale)
    show(form, document, lines(document))
    for file in stale:
        note(f"{file.path}: {'written' if write else 'not written; --write would'}")
    return int(bool(stale) and not write)


def _empty_document(name: str) -> Expect:
    """Return a document without any change."""
    return {
        "schema": "mlir-matrix/expect/v1",
        "summary": {"new": 0, "changed": 0, "gone": 0, "left": 0},
        "name": name,
        "written": False,
    }


def _listed_corpora(catalog: Catalog, name: str) -> set[str]:
    """Return the corpora whose members are in a list. Raise UsageError if a name is neither one of them nor a suite."""
    if name in catalog.without_data:
        raise UsageError(catalog.without_data[name])
    listed = {each for each, corpus in catalog.corpora.items() if corpus.document.folder is None}
    check_known("suite or listed corpus", [name], listed | catalog.suites.keys())
    return listed


def _compare(
    catalog: Catalog, home: Home, name: str, globs: Sequence[str], results: Path | None, upstream: Path, limits: Limits,
    form: str, quiet: bool, *, write: bool,
) -> int:  # fmt: skip
    """Show how the results of a suite differ from what upstream expects."""
    from mlir_matrix.expectations.upstream import compare_upstream  # it needs a parser of Python

    if write:
        raise UsageError("--from only compares, and changes no file; remove --write, or remove --from")
    check_known("suite", [name], catalog.suites)
    catalog = validate(catalog)
    current = Session(catalog=catalog, home=home, pins=Pins(catalog))
    found = _results(current, name, globs, results, limits, quiet)
    compared = compare_upstream(catalog, catalog.suites[name], upstream, found)
    document = _empty_document(name)
    document["upstream"] = compared
    show(form, document, lines(document))
    return int(any(cell["only_they_fail"] or cell["only_we_fail"] for cell in compared["cells"]))


def _results(
    current: Session, name: str, globs: Sequence[str], file: Path | None, limits: Limits, quiet: bool
) -> dict[str, TestResult]:
    """Run a suite, or read its results from a file."""
    if file:
        return _read(file, current, name, globs)
    plan = plan_tests(current, select_tests(current, [name, *globs]))
    return {each.id: each for each in run_all(current, plan, LOCAL, limits, quiet=quiet).results}


def _read(file: Path, current: Session, name: str, globs: Sequence[str]) -> dict[str, TestResult]:
    """Read the results of a suite. Raise UsageError for those of another version, and of other releases than the default ones."""
    document = read_results(file)
    if (made := document["run"]["version"]) != __version__:
        raise UsageError(f"{file}: made by version {printable(made)}; this is {__version__}: run the suite again")
    found = {entry["id"]: result_of(entry) for entry in document["tests"]}
    if globs:
        found = {
            test.id: found[test.id] for test in choose(current.catalog, [name, *globs]).tests() if test.id in found
        }
    if found.keys().isdisjoint(choose(current.catalog, [name]).ids()):
        raise UsageError(f"{file}: holds no test of suite {name}; make it with: matrix run {name} --results FILE")
    for result in found.values():
        # The suite varies the pins of environments with pins in their names.
        for reference in (each for each in result.environments if PINS_MARK not in each):
            check_known("environment", [reference], current.catalog.environments, f"{file}: ")
            for component, release in current.pins_of(reference).items():
                if release not in (made := result.pins.get(component, release)):
                    raise UsageError(
                        f"{file}: made with {component} {printable(made)}; expectations are those of {release}: run the suite again"
                    )
    return found


_EVIDENCE = {
    "input": "take the same IR, and each output satisfies exactly one of them",
    "repeated": "are of one step and take the same IR: one test could check both",
}


@verb(
    "conflicts",
    "matrix conflicts",
    "matrix conflicts 'mlir/linalg-*/ir/*' --over llvm=18,19,22",
    "matrix conflicts --results before.json --results after.json",
)
@options.tests
@click.option("--over", metavar="COMPONENT=RELEASE,…", help="Compare results of these releases, e.g. llvm=19,22.")
@options.documents
@options.session(*options.releases, options.cache)
@options.output_format("text", "json")
@options.limits
def conflicts_command(
    tests: tuple[str, ...], over: str | None, documents: tuple[Path, ...], current: Session, form: str, limits: Limits
) -> int:
    """Find pairs of IR tests that cannot both pass.

    Only IR tests without pins among the selected tests count; --over compares releases. A suite can list known pairs under
    'conflicts'.

    Exit code 1: a pair is found that no suite lists, or a listed pair is not found.
    """
    ir_tests = [test for test in select_tests(current, tests) if test.is_ir and not test.pins]
    if len(ir_tests) < 2:
        raise UsageError(
            f"conflicts are between two IR tests or more; {counted(len(ir_tests), 'IR test')} without pins selected"
        )
    if documents:
        seen = by_releases({str(path): read_outcomes(current.catalog, path) for path in documents})
    else:
        seen = {name: observe(current, tests, own, limits) for name, own in _configurations(current, over).items()}
    document = find_conflicts(current, tests, ir_tests, seen)
    show(form, document, _conflict_lines(document))
    return 1 if document["stale"] or any(pair["known"] is None for pair in document["conflicts"]) else 0


def _configurations(current: Session, over: str | None) -> dict[str, Pins]:
    """Return the pins under which tests run, by name."""
    if over is None:
        name = ", ".join("=".join(pin) for pin in current.pins.overrides.items())
        return {name or "here": current.pins}
    component, mark, releases = over.partition("=")
    if not (mark and component and releases):
        raise UsageError(f"--over {over}: expected COMPONENT=RELEASE,RELEASE, e.g. llvm=19,22")
    words = [f"{component}={release}" for release in releases.split(",")]
    for word in words:
        read_pins(current.catalog, [word], "--over")
    return {word: current.pins.override(word) for word in dict.fromkeys(words)}


def _conflict_lines(document: Conflicts) -> Iterator[str]:
    for pair in document["conflicts"]:
        yield from _pair("conflict", pair)
        if known := pair["known"]:
            yield f"  known: {known['reason']} ({known['position']})"
    for same in document["repeated"]:
        yield from _pair("repeated", same)
    for stale in document["stale"]:
        yield f"stale {' '.join(stale['tests'])}\n  {stale['position']} lists a conflict, and there is none"
    unknown = sum(pair["known"] is None for pair in document["conflicts"])
    times = f", seen {len(document['where'])} times" if len(document["where"]) > 1 else ""
    conflicts = f"{counted(len(document['conflicts']), 'conflict')}, {unknown} not known"
    yield f"{counted(document['tests'], 'IR test')}{times}: {conflicts}; {len(document['repeated'])} repeated"


def _pair(word: str, pair: ConflictPair | RepeatedPair) -> Iterator[str]:
    yield f"{word} {' '.join(pair['tests'])}"
    if pair["how"] == "releases":
        passes, alone = pair.get("passes", []), pair.get("alone", {})
        of = f"demand opposite things of {' and '.join(passes)}" if passes else "pass in turn"
        turns = ", ".join(f"{test} passes under {', '.join(where)}" for test, where in alone.items())
        yield f"  they {of}: {turns}; if one passes, the other breaks"
    else:
        yield f"  they {_EVIDENCE[pair['how']]} ({', '.join(pair['where'])})"
