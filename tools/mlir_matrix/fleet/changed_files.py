"""Find the tests that any change of some files can affect: those whose plan reads them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import printable, split_pins
from mlir_matrix.base.text import counted
from mlir_matrix.catalog.catalog import REFERENCE, Entry
from mlir_matrix.catalog.load import COSTS, QUARANTINE, TOLERANCES
from mlir_matrix.catalog.models.base import Document
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.source.repository import Repository, local_folder
from mlir_matrix.execute.keys import tool_modules
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.quarantine import ActiveQuarantine
from mlir_matrix.fleet.affected import ACTIONS, Affected, changes, concerns_all, why_all
from mlir_matrix.fleet.plan_state import PlanState, planned_state

#: The most characters of a path of Linux.
_LONGEST_PATH = 4096
#: The placeholder for the digest of a changed file.
_OTHER = "changed"
#: The sections of a catalog whose entries a test uses.
_SECTIONS = (
    "frameworks",
    "pipelines",
    "targets",
    "workloads",
    "steps",
    "kinds",
    "suites",
    "expectations",
    "environments",
    "components",
)
#: A section of the catalog, and the name of an entry.
Used = tuple[str, str]


def affected_by(session: Session, tests: Sequence[Test], files: Iterable[Path]) -> Affected:
    """Return which tests a change of these files can affect. For a missing file, these are only the tests that name it."""
    plan, now = planned_state(session, tests)
    before: PlanState = {**now, "environments": {**now["environments"]}, "tools": {**now["tools"]}}
    before["files"] = {**now["files"]}
    uses = {test.id: frozenset(_uses(test)) for test in plan.tests}
    reasons: dict[str, str] = {}
    outside = []
    quarantine = ActiveQuarantine(session.catalog, "")
    for file in files:
        number, path = _place(session.catalog.roots, file)
        if number is None:
            outside.append(str(file))
            continue
        if f"{number}:{path}" in before["files"]:
            before["files"][f"{number}:{path}"] = _OTHER
        if concerns_all(number, path):
            reasons |= dict.fromkeys(uses, why_all(path))
        elif number == 0 and path.startswith(ACTIONS):
            _mark_tools(path.removeprefix(ACTIONS).removesuffix(".py"), before)
        if path == f"matrix/{QUARANTINE}":
            reasons |= {test: f"{path} changed" for test in uses if any(quarantine.entries(test))}
        changed = set(_defined(session, number, path))
        for environment in now["environments"]:
            if not changed.isdisjoint(_made_of(session, environment)) or _locks(session, environment, path):
                before["environments"][environment] = _OTHER
        reasons |= {test: f"{path} changed" for test, used in uses.items() if not changed.isdisjoint(used)}
    found = reasons | changes(plan, now, before)
    notes = [f"{counted(len(outside), 'file')} in no catalog: {outside[0]}"] if outside else []
    return Affected(reasons={test: found[test] for test in uses if test in found}, notes=notes, plan=plan)


def check_files(files: Iterable[Path]) -> None:
    """Raise UsageError for a file that is not there, unless git knows it: a change may have deleted it."""
    for file in files:
        if os.path.lexists(file):
            continue
        real = Path(os.path.realpath(file.parent), file.name)
        # Its folder may be deleted, too.
        folder = next(each for each in real.parents if os.path.isdir(each))
        git = local_folder(str(folder))
        if git is None or not Repository(str(folder), git).had(real):
            raise UsageError(
                f"--changed {printable(str(file), _LONGEST_PATH)}: there is no such file, and no commit of git has it"
            )


def _place(roots: Sequence[Path], file: Path) -> tuple[int | None, str]:
    """Return the number of the innermost catalog that contains a file, and the path of the file there."""
    real = os.path.join(os.path.realpath(file.parent), file.name)
    inside = [number for number, root in enumerate(roots) if real.startswith(f"{os.path.realpath(root)}/")]
    if not inside:
        return None, ""
    number = max(inside, key=lambda each: len(os.path.realpath(roots[each])))
    return number, os.path.relpath(real, os.path.realpath(roots[number]))


def _mark_tools(module: str, before: PlanState) -> None:
    """Mark the tools whose code includes a module of actions."""
    for tool in before["tools"]:
        name, _, backend = tool.partition(" by ")
        if module in tool_modules(name, backend or None):
            before["tools"][tool] = _OTHER


def _defined(session: Session, number: int, path: str) -> Iterator[Used]:
    """Yield the entries that a file of a catalog defines."""
    catalog = session.catalog
    file = catalog.roots[number] / path
    for section in _SECTIONS:
        entries: dict[str, Entry[Document]] = getattr(catalog, section)
        for name, entry in entries.items():
            if file in (entry.folder / os.path.basename(entry.source.file), entry.files.get(REFERENCE)):
                # The entries are rules, whose positions begin with the file.
                is_rules = section in ("suites", "expectations")
                yield ("suites", entry.source.file) if is_rules else (section, name)
    if path == "toolchains/known-good.yaml":
        yield from (("environments", name) for name in catalog.environments)
    folder, _, rest = path.partition("/")
    if folder == "golden" and rest in (TOLERANCES, COSTS):
        yield from (("workloads", name) for name in catalog.workloads)
    elif folder == "golden" and rest.endswith((f"/{TOLERANCES}", f"/{COSTS}")):
        yield "workloads", rest.partition("/")[0]


def _uses(test: Test) -> Iterator[Used]:
    """Yield the entries that a test uses, except environments, which its plan has."""
    yield ("steps" if test.is_ir else "pipelines"), test.pipeline
    yield from (("frameworks", test.framework), ("targets", test.target), ("workloads", test.workload))
    compared = test.tested_property
    if compared and compared.cell:
        yield from zip(("frameworks", "pipelines", "targets"), compared.cell, strict=True)
    for route in filter(None, (test.route, compared.route if compared else None)):
        yield "kinds", route.kind
        for step in route.steps:
            yield from (("steps", step.name), ("kinds", step.takes), ("kinds", step.gives))
    positions = [test.selected_by, test.weak_fails, compared.position if compared else ""]
    positions += [test.expectation.position] if test.expectation else []
    positions += [test.cost.position] if test.cost else []
    yield from (("suites", position.partition(":")[0]) for position in positions)


def _made_of(session: Session, reference: str) -> Iterator[Used]:
    name = split_pins(reference)[0]
    yield "environments", session.pins.meant(name)
    for entry, _ in (*session.releases(reference), *session.needs(reference)):
        yield "components", entry.name


def _locks(session: Session, reference: str, path: str) -> bool:
    """Return whether a file is a lock file of an environment, or of a release that it has."""
    folder, _, name = path.rpartition("/")
    own = session.pins.meant(split_pins(reference)[0])
    used = [f"{entry.name}-{release.release}-" for entry, release in session.releases(reference)]
    used += [f"{entry.name}-{release.release}-" for entry, release in session.needs(reference)]
    return folder == "toolchains/locks" and name.startswith((f"{own}-cp", f"{own}@", *used))
