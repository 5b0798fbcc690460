"""Find the tests that a change can affect: compare the static inputs of their actions now and at another revision.

If the program differs, the program of the other revision makes the plan of that revision; otherwise this program does. An action
is affected if its inputs differ, or if an action before it is affected, because only a run shows whether outputs stay the same.

No plan contains the code of the program. The digest of a tool covers the code that an action runs. A change of other code
affects every test, unless it is known to be harmless.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mlir_matrix.actions.runtime.bytecode import options
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.fingerprint import PLAN_FOLDERS
from mlir_matrix.base.names import printable
from mlir_matrix.base.paths import is_installed
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.environments.scratch import temporary_folder
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.source.process import clean_environment
from mlir_matrix.environments.source.repository import Repository, local_folder
from mlir_matrix.execute.keys import ACTIONS_FOLDER, BACKENDS, imported_modules, tool_modules, with_imports
from mlir_matrix.expand.expansion import Test
from mlir_matrix.fleet.plan_state import PlanState, StateRequest, name_of, planned_state, tool_of
from mlir_matrix.plan.graph import File, PlannedAction
from mlir_matrix.plan.planner import PlannedTests

#: The folder of the program.
PROGRAM = "tools/mlir_matrix"
ACTIONS = f"{PROGRAM}/actions/"
#: The modules that make the plan of a revision, the newest name first.
_PLANNERS = ("fleet/plan_state.py", "judge/plan_state.py")
#: Folders of any catalog on which no action depends, but every test may: how images are made, what machines pin and grant.
_SETTINGS = ("containers", "matrix/machines")
#: The same for the first catalog: also the program, its launcher, its packages, and Bazel's rules.
_WHOLE = (
    *(PROGRAM, "tools/matrix", "tools/environment.sh", "tools/requirements.txt", "pyproject.toml"),
    *("BUILD.bazel", "MODULE.bazel", "toolchains/bazel", *_SETTINGS),
)
#: Code of the program that affects no outcome, because only other verbs use it, or ``matrix run`` once it has all results.
_HARMLESS = (
    *("bisect/", "buildbot/", "expectations/", "explain/", "golden/", "history/migrations/", "schema/", "site/"),
    *("support/", "toolchain/", "compare/agreement.py", "history/columns.py", "history/report.py", "history/sides.py"),
    *(f"{room}/commands.py" for room in ("compare", "containers", "fleet", "history")),
)
_NO_STATE: PlanState = {"tests": {}, "actions": [], "environments": {}, "tools": {}, "files": {}}


@dataclass(frozen=True, kw_only=True)
class Revision:
    """A commit, and the catalogs whose folders are in its repository, by number."""

    repository: Repository
    commit: str
    #: The path of each such catalog below the top of the repository.
    places: Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class Affected:
    """The tests that a change can affect, with the reason for each, and notes on the limits of the comparison."""

    reasons: Mapping[str, str]
    notes: Sequence[str] = ()
    #: The plan of all tests.
    plan: PlannedTests


def find_revision(name: str, roots: Sequence[Path]) -> Revision:
    """Find a revision in the catalogs' repository that contains the current folder, or else in their only repository.

    Raise UsageError.
    """
    places: dict[Path, dict[int, str]] = {}
    for number, root in enumerate(roots):
        folder = _work_tree(root)
        if folder is not None:
            places.setdefault(folder, {})[number] = os.path.relpath(os.path.realpath(root), folder.parent)
    here = local_folder(os.path.realpath("."))
    if here is None or here not in places:
        problem = f"--changed-since {printable(name)}: "
        if not places:
            raise UsageError(f"{problem}no catalog is in a git repository: {', '.join(map(str, roots))}")
        if len(places) > 1:
            found = " and ".join(str(folder.parent) for folder in places)
            raise UsageError(f"{problem}the catalogs are in {found}; run matrix in the one to compare")
        here = next(iter(places))
    repository = Repository(str(here.parent), here)
    try:
        commit = repository.commit(name)
    except UsageError as error:
        raise UsageError(f"--changed-since: {error}") from None
    return Revision(repository=repository, commit=commit, places=places[here])


def _work_tree(root: Path) -> Path | None:
    """Return the git folder of the work tree that contains a catalog."""
    folder = local_folder(os.path.realpath(root))
    return folder if folder is not None and folder.name == ".git" else None


def affected_since(session: Session, arguments: Sequence[str], tests: Sequence[Test], revision: Revision) -> Affected:
    """Return which of the tests that these arguments choose can be affected by what changed since a revision."""
    short = revision.commit[:12]
    with temporary_folder(session.home) as folder:
        program = _write_files(session, revision, folder / "tree")
        with _started(session, arguments, program, folder) as process:
            plan, now = planned_state(session, tests)
            answer = process.communicate()[0]
        said = (folder / "errors").read_text(errors="replace").strip().splitlines() or ["no message"]
    before, notes = _NO_STATE, [*_not_compared(session, tests, revision), *program.notes]
    if process.returncode == 0:
        before = json.loads(answer)
    elif process.returncode == UsageError.exit_code:
        notes.append(f"every test counts as changed: at {short}, {said[0]}")
    elif program.cause:
        # The change may fix the error that makes the old plan fail.
        before = now
        notes.append(f"the plan at {short} failed, so only the current tests are known: {said[-1]}")
    else:
        raise InfrastructureError(f"--changed-since: the plan at {short} failed: {said[-1]}")
    reasons = dict.fromkeys(now["tests"], why_all(program.cause)) if program.cause else {}
    reasons |= {test: f"{why} since {short}" for test, why in changes(plan, now, before).items()}
    return Affected(reasons=reasons, notes=notes, plan=plan)


def _not_compared(session: Session, tests: Iterable[Test], revision: Revision) -> Iterator[str]:
    """Name the catalogs that have a part of a test, but are not in the repository of a revision."""
    catalog = session.catalog
    outside = [root for number, root in enumerate(catalog.roots) if number not in revision.places]
    if not outside:
        return
    tested = {entry.root for test in tests if test.selected for entry in _entries(catalog, test)}
    for root in outside:
        if root in tested:
            there = "it is in no git repository" if _work_tree(root) is None else "run matrix there to compare them"
            yield f"changes of {root} are not compared; {there}"


def _entries(catalog: Catalog, test: Test) -> Iterator[Entry[Any]]:
    """Yield what a test consists of; of the first catalog, which has most, only workloads and steps with IR tests."""
    if test.is_ir:
        yield catalog.steps[test.pipeline]
        return
    yield catalog.workloads[test.workload]
    steps = test.route.steps if test.route else ()
    parts = [catalog.frameworks[test.framework], catalog.pipelines[test.pipeline], catalog.targets[test.target]]
    parts += [catalog.steps[step.name] for step in steps]
    yield from (part for part in parts if part.root != catalog.roots[0])


def concerns_all(number: int, path: str) -> bool:
    """Return whether any change of a file of a catalog can affect every test."""
    if number > 0 or not path.startswith(f"{PROGRAM}/"):
        whole = _WHOLE if number == 0 else _SETTINGS
        return any(path == each or path.startswith(f"{each}/") for each in whole)
    if path.startswith(ACTIONS):
        return path.removeprefix(ACTIONS).removesuffix(".py") not in _modules_of_tools_alone()
    return not path.removeprefix(f"{PROGRAM}/").startswith(_HARMLESS)


def why_all(path: str) -> str:
    """Return why every test counts as affected by the change of a file."""
    return f"{path} changed: it can change any verdict"


@cache
def _modules_of_tools_alone() -> frozenset[str]:
    """Return the modules of actions that digests of tools cover, without those that the program itself imports."""
    tools = [file.stem for file in ACTIONS_FOLDER.glob("tools/*.py")]
    covered = {module for tool in tools for backend in BACKENDS for module in tool_modules(tool, backend)}
    package = ACTIONS_FOLDER.parent
    own = set[str]()
    for file in package.rglob("*.py"):
        if not str(file.relative_to(package)).startswith(("actions/", *_HARMLESS)):
            own.update(imported_modules(file.read_text()))
    return frozenset(covered - with_imports(own).keys())


def changes(plan: PlannedTests, now: PlanState, before: PlanState) -> dict[str, str]:
    """Return the tests whose actions or expectations differ between two states, and why; ``plan`` is that of ``now``."""
    known = frozenset(before["actions"])
    causes: dict[str, str] = {}
    for name, action in plan.graph.actions.items():
        cause = next((causes[source] for source in action.sources if source in causes), "")
        if cause := cause or _own_cause(name, action, now, before, known):
            causes[name] = cause
    found = dict.fromkeys(before["tests"].keys() - now["tests"].keys(), "no longer planned")
    for test, (last, expected, *reference) in now["tests"].items():
        was = before["tests"].get(test)
        if was is None:
            found[test] = "new"
        elif last in causes:
            found[test] = causes[last]
        elif was[0] != last:
            found[test] = "planned in another way"
        elif was[1] != expected:
            found[test] = f"expected {expected} instead of {was[1]}"
        elif was[2:] and was[2:] != reference:  # programs before this one state none
            found[test] = "its reference changed"
    return found


def _own_cause(name: str, action: PlannedAction, now: PlanState, before: PlanState, known: frozenset[str]) -> str:
    for ref in action.inputs.values():
        file = name_of(ref) if isinstance(ref, File) else ""
        if file and before["files"].get(file, now["files"][file]) != now["files"][file]:
            return f"{file.partition(':')[2]} changed"
    environment, tool = action.environment, tool_of(action)
    if before["environments"].get(environment, now["environments"][environment]) != now["environments"][environment]:
        return f"environment {environment} changed"
    if before["tools"].get(tool, now["tools"][tool]) != now["tools"][tool]:
        return f"the code of tool {tool} changed"
    return "" if name in known else f"the definition of {name.rpartition('-')[0]} changed"


@dataclass(frozen=True, kw_only=True)
class _PlanningProgram:
    """The program that makes the plan of a revision."""

    #: The folder of the package.
    folder: str
    roots: Sequence[str]
    #: The code of tools, if it differs from the program's.
    actions: str
    #: Its module that makes the plan, as a path below the package.
    planner: str
    #: Options of its interpreter.
    interpreter: Sequence[str]
    #: A changed file that can affect every test; empty if there is none.
    cause: str
    notes: Sequence[str] = ()


@contextmanager
def _started(
    session: Session, arguments: Sequence[str], program: _PlanningProgram, folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Start the program that makes the plan at a revision."""
    builds = {each.release: each.pinned for each in session.builds.values()}
    request: StateRequest = {
        "tests": list(arguments),
        "catalogs": program.roots[1:],
        "pins": [f"{name}={builds.get(release, release)}" for name, release in session.pins.overrides.items()]
        + session.pins.step_words,
        "swaps": dict(session.pins.swaps),
        "actions": program.actions,
    }
    (folder / "request").write_text(json.dumps(request))
    module = f"mlir_matrix.{program.planner.removesuffix('.py').replace('/', '.')}"
    words = [sys.executable, "-P", "-s", *program.interpreter, "-m", module]
    variables = {"PYTHONPATH": program.folder, "MATRIX_ROOT": program.roots[0], "PYDANTIC_DISABLE_PLUGINS": "1"}
    environment = clean_environment() | variables
    with open(folder / "request") as asked, open(folder / "errors", "w") as errors:
        process = subprocess.Popen(words, env=environment, stdin=asked, stdout=subprocess.PIPE, stderr=errors)
    with process:
        try:
            yield process
        finally:
            process.kill()


def _write_files(session: Session, revision: Revision, tree: Path) -> _PlanningProgram:
    """Write the files of a revision that a plan depends on."""
    tree.mkdir()
    wanted = [os.path.normpath(f"{each}/{folder}") for each in revision.places.values() for folder in PLAN_FOLDERS]
    if 0 in revision.places and not is_installed():
        wanted.append(os.path.normpath(f"{revision.places[0]}/{PROGRAM}"))
    revision.repository.write_files(revision.commit, wanted, tree)
    roots = [str(root) for root in session.catalog.roots]
    for number, each in revision.places.items():
        roots[number] = os.path.normpath(tree / each)
        os.makedirs(roots[number], exist_ok=True)
    changed = [(number, path) for number in revision.places for path in _unplanned_changes(revision, number)]
    causes = [path for number, path in changed if concerns_all(number, path)]
    cause = causes[0] if causes else ""
    own, old = str(Path(__file__).resolve().parents[2]), f"{roots[0]}/{os.path.dirname(PROGRAM)}"
    actions = f"{roots[0]}/{PROGRAM}/actions" if any(path.startswith(ACTIONS) for _, path in changed) else ""
    notes = []
    differs = [path for path in causes if path.startswith(f"{PROGRAM}/")]
    if differs:
        planner = next((each for each in _PLANNERS if os.path.isfile(f"{roots[0]}/{PROGRAM}/{each}")), "")
        if planner:
            return _PlanningProgram(
                folder=old, roots=roots, actions="", planner=planner, interpreter=("-B",), cause=cause
            )
        notes.append(f"{differs[0]} changed since then, and that revision cannot be asked for its plan")
    return _PlanningProgram(
        folder=own,
        roots=roots,
        actions=actions,
        planner=_PLANNERS[0],
        interpreter=options(session.home.bytecode),
        cause=cause,
        notes=notes,
    )


def _unplanned_changes(revision: Revision, number: int) -> list[str]:
    """Return the files of a catalog that differ from a revision and that no plan names: the program and files beside it."""
    place = revision.places[number]
    watched = _WHOLE if number == 0 and not is_installed() else _SETTINGS
    words = (f"--work-tree={revision.repository.top}", "diff", "--name-only", "-z", "--no-relative", "--no-ext-diff")
    paths = [":(top)" + os.path.normpath(f"{place}/{each}") for each in watched]
    names = revision.repository.git(*words, "--no-renames", revision.commit, "--", *paths).split("\0")[:-1]
    return [os.path.relpath(name, place) for name in names]
