"""Say what changed since the tests of a cause were last as expected: files of catalogs, releases, the program."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_matrix.base.errors import MatrixError
from mlir_matrix.base.names import MEMBER
from mlir_matrix.base.paths import is_installed
from mlir_matrix.environments.source.repository import Repository, local_folder
from mlir_matrix.results.cause_changes import differing
from mlir_matrix.results.causes import Suspect, route
from mlir_matrix.results.results import Run, TestResult

if TYPE_CHECKING:
    from mlir_matrix.history.last_pass import LastPass
    from mlir_matrix.results.documents import ChangedSince, StartedRun

#: For how many causes, and for how many tests of each, to ask the history.
_CAUSES, _TESTS = 20, 50
#: Files that every test uses.
_SHARED = ("tools/driver/", "tools/mlir_matrix/actions/", "golden/tolerances.yaml", "recipes/kinds/")


def what_changed(run: Run, about: StartedRun, state: Path, warn: Callable[[str], object]) -> dict[str, ChangedSince]:
    """Return what changed by the key of a cause; of none if the history cannot be read."""
    asked = {cause["key"]: cause["tests"][:_TESTS] for cause in run.causes[:_CAUSES]}
    try:
        from mlir_matrix.history.last_pass import last_passes  # SQLAlchemy is in an extra

        passes = last_passes(state, [test for tests in asked.values() for test in tests], warn)
    except (MatrixError, ModuleNotFoundError):
        # The history is no part of the run.
        return {}
    results = {result.id: result for result in run.results}
    # Most causes have the same last run.
    files_since = cache(_files_since)
    found = {}
    for cause in run.causes[:_CAUSES]:
        known = [test for test in asked[cause["key"]] if test in passes]
        if known:
            latest = max(known, key=lambda test: passes[test].ended)
            tests = [results[test] for test in cause["tests"]]
            found[cause["key"]] = _changed(tests, results[latest], passes[latest], about, files_since)
    return found


def _changed(
    tests: Sequence[TestResult],
    latest: TestResult,
    before: LastPass,
    about: StartedRun,
    files_since: Callable[[str, str], Sequence[str] | None],
) -> ChangedSince:
    """Return what differs between the run of a last pass and now. ``latest``: the result of its test now."""
    pins = differing(before.pins, latest.pins)
    environments = sorted(differing(before.environments, latest.environments))
    is_used = _uses(tests, environments=bool(environments or pins))
    folders = {each["folder"]: each for each in before.catalogs}
    files: list[str] = []
    others = 0
    unknown: list[str] = []
    for number, catalog in enumerate(about["catalogs"]):
        commit = folders.get(catalog["folder"], {}).get("commit", "")
        changed = files_since(catalog["folder"], commit)
        if changed is None:
            # The version tells what an installed program has.
            if number > 0 or not is_installed():
                unknown.append(catalog["folder"])
            continue
        used = [file for file in changed if is_used(file)]
        files += used
        others += len(changed) - len(used)
    found: ChangedSince = {
        "run": before.run, "ended": before.ended, "outcome": before.outcome,
        "dirty": any(each["dirty"] for each in before.catalogs),
        "files": files, "other_files": others, "pins": pins, "environments": environments,
    }  # fmt: skip
    if unknown:
        found["unknown"] = unknown
    if before.version != about["version"]:
        found["version"] = [before.version, about["version"]]
    return found


def _files_since(folder: str, commit: str) -> Sequence[str] | None:
    """Return the files of a catalog that differ from a commit; None if git cannot tell."""
    git = local_folder(folder)
    if git is None or not commit:
        return None
    try:
        return Repository(folder, git).files_since(commit, Path(folder))
    except MatrixError:
        return None


def _uses(tests: Iterable[TestResult], *, environments: bool) -> Callable[[str], bool]:
    """Return the function that tells whether all of these tests use a file of a catalog."""
    shared = frozenset.intersection(*(frozenset(_folders(test)) for test in tests))
    folders = (*shared, *_SHARED, *(["toolchains/"] if environments else []))
    return lambda file: file.startswith(folders)


def _folders(test: TestResult) -> Iterable[str]:
    """Yield how the paths of the files begin that define a test."""
    suspects = route(test)
    if not test.identity.is_ir:
        suspects.append(Suspect("target", test.target))
    yield from (f"{os.path.dirname(suspect.file)}/" for suspect in suspects)
    if test.identity.is_ir:
        return
    yield from (f"recipes/pipelines/{test.pipeline}.", f"recipes/pipelines/{test.pipeline}/")
    if MEMBER not in test.workload:
        yield f"golden/{test.workload}/"
    if test.expectation is not None:
        yield test.expectation["position"].partition(":")[0]
