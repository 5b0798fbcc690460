"""Name causes by what changed since their tests passed, and join those behind which the same file is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mlir_matrix.results.cause_globs import RanTests
from mlir_matrix.results.causes import order, ran_tests, title
from mlir_matrix.results.results import TestResult

if TYPE_CHECKING:
    from mlir_matrix.results.documents import Cause, ChangedSince

#: Where releases and packages come from: changes there are known by their pins and environments.
_TOOLCHAINS = "toolchains/"
#: The most changed releases that a title names.
_MOST_PINS = 2


def named_by_changes(
    results: Sequence[TestResult], causes: Sequence[Cause], changes: Mapping[str, ChangedSince]
) -> list[Cause]:
    """Return the causes with what changed, by their keys. If only one thing did, the title begins with it.

    Causes of one changed file are joined. Those of a changed release are not, because it may break several things.
    """
    groups: dict[str, list[Cause]] = defaultdict(list)
    for cause in causes:
        changed = changes.get(cause["key"])
        if changed is None:
            groups[cause["key"]].append(cause)
            continue
        file = _only_file(changed)
        named: Cause = {**cause, "changed": changed}
        # The title of a cause that is suspected anyway needs no other name.
        folder = cause.get("file", "").rpartition("/")[0]
        is_suspect = bool(file and folder) and file.startswith(f"{folder}/")
        if file:
            named["file"] = file
        words = file or _only_packages(changed)
        if words and not is_suspect:
            named["title"] = title([f"{words} changed", cause["title"]])
        # A failure of the infrastructure says nothing about the code.
        is_alone = not file or cause["kind"] == "infrastructure"
        groups[cause["key"] if is_alone else file].append(named)
    ran = ran_tests(results)
    return sorted((_joined(group, ran) for group in groups.values()), key=order)


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the values before and now of each key that both have with different values."""
    return {name: [before[name], value] for name, value in now.items() if before.get(name, value) != value}


def _only_file(changed: ChangedSince) -> str:
    """Return the file of a catalog that alone changed; nothing if other things did or may have, or if several files did."""
    others = changed["pins"] or changed["environments"] or "version" in changed or "unknown" in changed
    return changed["files"][0] if len(changed["files"]) == 1 and not others else ""


def _only_packages(changed: ChangedSince) -> str:
    """Return the releases or environments that alone changed."""
    if "version" in changed or not all(file.startswith(_TOOLCHAINS) for file in changed["files"]):
        return ""
    if changed["pins"]:
        words = [f"{name} {' → '.join(releases)}" for name, releases in changed["pins"].items()]
        return ", ".join(words) if len(words) <= _MOST_PINS else ""
    return f"environment {changed['environments'][0]}" if len(changed["environments"]) == 1 else ""


def _joined(causes: Sequence[Cause], ran: RanTests) -> Cause:
    """Return one cause instead of several. The largest one names it."""
    first = causes[0]
    if len(causes) == 1:
        return first
    tests = sorted(
        (test for cause in causes for test in cause["tests"]), key=lambda test: (test != first["example"], test)
    )
    return {**first, "tests": tests, "globs": ran.globs(tests)}
