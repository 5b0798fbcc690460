"""Which tests a change can affect: edits of a copy of the catalog in a git repository, against what must be selected."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.paths import find_home
from mlir_matrix.cli.options import SessionOptions
from mlir_matrix.cost.against import opened
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose
from mlir_matrix.fleet.affected import Affected, affected_since, find_revision
from mlir_matrix.fleet.changed_files import affected_by, check_files
from mlir_matrix.fleet.selection import select
from mlir_matrix.plan.request import SelectionOptions
from mlir_matrix.plan.session import session_of
from support.machine import git
from support.spoiling import edit

REPOSITORY = Path(__file__).resolve().parents[3]
SUITE = "few"
WORKLOADS = ("mlp", "tanh", "topk", "exp", "softmax", "frontier_nonzero")

RULES = """\
description: A few tests of several steps.
blocks:
  - product:
      framework: [jax, mlir]
      pipeline: [linalg-loops, math-poly]
      target: [x86_64]
      workload: [mlp, tanh, topk]
steps: [linalg-to-loops, math-polynomial]
expect:
  - {tests: ["jax/*/*/topk"], outcome: lower-failed, reason: No sort.}
"""


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository with the catalog and a suite of a few tests."""
    folder = tmp_path_factory.mktemp("affected") / "catalog"
    for name in ("matrix", "recipes", "toolchains", "golden"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=_unneeded)
    (folder / "matrix" / "suites").mkdir()
    # Files of the catalog name the others.
    for name in (SUITE, "smoke", "llvm-releases"):
        (folder / "matrix" / "suites" / f"{name}.yaml").write_text(RULES)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "All")
    return folder


def _unneeded(folder: str, names: list[str]) -> list[str]:
    """Return what no test here is about: it would be read for each of them, in two revisions."""
    if Path(folder).name == "matrix":
        return ["suites", "corpora", "expectations"]
    if Path(folder).name in ("workloads", "golden"):
        named = {*WORKLOADS, *re.findall(r"\w+", (REPOSITORY / "golden/tolerances.yaml").read_text())}
        return [name for name in names if Path(folder, name).is_dir() and name not in named]
    return []


@pytest.fixture
def repository(committed: Path) -> Iterator[Path]:
    yield committed
    git(committed, "reset", "-q", "--hard", "main")
    git(committed, "clean", "-q", "-f", "-d")


@pytest.fixture(scope="module")
def unchanged(committed: Path) -> Session:
    """What is committed."""
    return session_of([committed], find_home())


def selected(session: Session) -> list[Test]:
    return [test for test in choose(session.catalog, [SUITE]).tests() if test.selected]


def since(session: Session, revision: str = "HEAD") -> Affected:
    return affected_since(session, [SUITE], selected(session), find_revision(revision, session.catalog.roots))


def test_temporary_files_are_in_the_home(unchanged: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the next run removes those of killed commands."""
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    assert since(unchanged).reasons == {}
    with opened("HEAD", SessionOptions(catalogs=[]), unchanged) as other:
        assert other.session is not None
        assert unchanged.home.scratch in other.session.catalog.roots[0].parents


def has_step(name: str) -> Callable[[Test], bool]:
    return lambda test: bool(
        (test.route and name in [step.name for step in test.route.steps]) or (test.is_ir and test.pipeline == name)
    )


@pytest.mark.parametrize(
    ("file", "old", "new", "affected", "reason"),
    [
        ("matrix/workloads/mlp/README.md", "", "A document.", lambda test: False, ""),
        ("recipes/steps/stablehlo-to-linalg/step.yaml", "description:", "# A comment.\ndescription:", lambda test: False, ""),
        (
            "recipes/steps/stablehlo-to-linalg/step.yaml", "inline,symbol-dce", "symbol-dce,inline",
            has_step("stablehlo-to-linalg"), "the definition of stablehlo-to-linalg changed",
        ),
        (
            "recipes/steps/linalg-to-loops/step.yaml", "tm-tensor-to-loops,", "tm-tensor-to-loops,canonicalize,",
            has_step("linalg-to-loops"), "the definition of linalg-to-loops changed",
        ),
        (
            "recipes/steps/linalg-to-loops/step.yaml", "passes: func.func(convert", "passes: canonicalize,func.func(convert",
            lambda test: False, "",
        ),
        (
            "matrix/workloads/mlp/reference.py", "return", "# A comment.\n    return",
            lambda test: test.workload == "mlp", "its reference changed",
        ),
        (
            "golden/mlp/tolerances.yaml", "rtol: eps(f32)", "rtol: 2 * eps(f32)",
            lambda test: test.workload == "mlp", "the definition of judge/mlp changed",
        ),
        (
            "toolchains/known-good.yaml", "iree: 3.13.0", "iree: 3.12.0", lambda test: False, "",
        ),
        (
            "toolchains/known-good.yaml", "  jax: 0.10.2\n", "  jax: 0.9.2\n",
            lambda test: test.framework == "jax", "environment jax changed",
        ),
        (
            "recipes/steps/stablehlo-to-linalg/patterns.mlir", "", "// Changed.\n",
            has_step("stablehlo-to-linalg"), "recipes/steps/stablehlo-to-linalg/patterns.mlir changed",
        ),
        (
            "matrix/workloads/mlp/jax.py", "", "# Changed.\n",
            lambda test: test.framework == "jax" and test.workload == "mlp", "matrix/workloads/mlp/jax.py changed",
        ),
        (
            "matrix/suites/few.yaml", "lower-failed", "run-failed",
            lambda test: test.id.startswith("jax/") and test.workload == "topk", "expected run-failed instead of lower-failed",
        ),
        (
            "matrix/suites/few.yaml", "steps:", "cost: fail\nsteps:",
            lambda test: not test.is_ir, "the definition of print changed",
        ),
        ("matrix/suites/few.yaml", "No sort.", "There is no sort.", lambda test: False, ""),
        ("matrix/suites/few.yaml", "[mlp, tanh, topk]", "[mlp, tanh, topk, exp]", lambda test: test.workload == "exp", "new"),
    ],
)  # fmt: skip
def test_a_change_selects_the_tests_that_it_can_affect(
    repository: Path, file: str, old: str, new: str, affected: Callable[[Test], bool], reason: str
) -> None:
    if (repository / file).exists():
        edit(repository / file, old, new)
    else:
        (repository / file).write_text(new)
    session = session_of([repository], find_home())
    tests = selected(session)
    found = since(session)
    assert {*found.reasons} == {test.id for test in tests if affected(test)}
    assert not found.notes
    # Whatever the change is, it affects only tests that use the file.
    new = {test for test, why in found.reasons.items() if why.startswith("new ")}
    users = affected_by(session, tests, [repository / file]).reasons
    assert {*found.reasons} - new <= {*users}
    for why in found.reasons.values():
        assert why.startswith(f"{reason} since ")


def test_what_another_revision_cannot_plan_counts_as_changed(repository: Path) -> None:
    """A suite that is new; a catalog that was broken."""
    git(repository, "checkout", "-q", "--detach")
    suite = repository / "matrix" / "suites" / f"{SUITE}.yaml"
    for broken, message in (("", "there is no suite 'few'"), ("blocks: 3\n", "matrix/suites/few.yaml:1:")):
        suite.write_text(broken) if broken else suite.unlink()
        git(repository, "add", "-A")
        git(repository, "commit", "-q", "-m", "Break")
        suite.write_text(RULES)
        session = session_of([repository], find_home())
        found = since(session)
        assert {*found.reasons} == {test.id for test in selected(session)}
        (note,) = found.notes
        assert note.startswith("every test counts as changed: at ")
        assert message in note


def test_the_repository_of_a_revision(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "sub").mkdir(parents=True)
        git(tmp_path / name, "init", "-q", "-b", "main")
        git(tmp_path / name, "commit", "-q", "--allow-empty", "-m", name)
    git(tmp_path / "two", "branch", "only")
    one, two = tmp_path / "one" / "sub", tmp_path / "two"
    monkeypatch.chdir(tmp_path)
    assert find_revision("only", [two]).places == {0: "."}
    assert find_revision("HEAD", [one, one.parent]).places == {0: "sub", 1: "."}
    with pytest.raises(UsageError, match=r"one and .*two; run matrix in the one to compare"):
        find_revision("only", [one, two])
    monkeypatch.chdir(one)
    assert find_revision("HEAD", [one, two]).places == {0: "sub"}
    # It is of the repository in which we are, whatever others have.
    with pytest.raises(UsageError, match=r"'only' is no commit, tag or branch of .*one"):
        find_revision("only", [one, two])
    with pytest.raises(UsageError, match="'--all' is no commit, tag or branch"):
        find_revision("--all", [one])
    plain = tmp_path / "plain"
    plain.mkdir()
    with pytest.raises(UsageError, match="no catalog is in a git repository"):
        find_revision("HEAD", [plain])


@pytest.mark.parametrize(
    ("file", "affected"),
    [
        ("docs/selecting-tests.md", lambda test: False),
        ("tools/mlir_matrix/golden/commands.py", lambda test: False),
        ("tools/mlir_matrix/plan/planner.py", lambda test: True),
        ("tools/mlir_matrix/execute/lookup.py", lambda test: True),
        ("tools/requirements.txt", lambda test: True),
        ("tools/mlir_matrix/actions/tools/irtest.py", lambda test: test.is_ir),
        ("tools/mlir_matrix/actions/runtime/child.py", lambda test: True),
        ("toolchains/locks/jax-cp311-linux-x86_64.txt", lambda test: test.framework == "jax"),
        ("toolchains/components/jax.yaml", lambda test: test.framework == "jax"),
        ("toolchains/environments/iree.yaml", lambda test: False),
        ("golden/mlp/y.npy", lambda test: test.workload == "mlp"),
        ("matrix/workloads/mlp/reference.py", lambda test: test.workload == "mlp"),
        ("matrix/workloads/mlp/workload.yaml", lambda test: test.workload == "mlp"),
        ("matrix/workloads/softmax/reference.py", lambda test: False),
        ("recipes/kinds/stablehlo.yaml", lambda test: test.framework == "jax"),
    ],
)
def test_users_of_a_file(repository: Path, unchanged: Session, file: str, affected: Callable[[Test], bool]) -> None:
    tests = selected(unchanged)
    found = affected_by(unchanged, tests, [repository / file])
    assert {*found.reasons} == {test.id for test in tests if affected(test)}
    assert not found.notes
    assert affected_by(unchanged, tests, [Path("/nowhere/x.md")]).notes == ["1 file in no catalog: /nowhere/x.md"]


def test_a_file_that_is_not_there_was_deleted_or_never_was(repository: Path, unchanged: Session) -> None:
    shutil.rmtree(repository / "matrix" / "workloads" / "mlp")
    check_files([repository / "matrix/workloads/mlp/jax.py", repository / "golden/mlp", Path("/")])
    for name in (repository / "matrix/workloads/mlp/jaxx.py", Path("/nowhere/x.md")):
        with pytest.raises(UsageError, match=f"--changed {name}: there is no such file"):
            select(unchanged, [SUITE], SelectionOptions(changed=(name,)))


def test_a_quarantine_is_an_expectation(repository: Path) -> None:
    file = repository / "matrix" / "quarantine.yaml"
    text = "quarantine:\n  - {tests: ['jax/*/*/mlp'], owner: a, until: 2999-12-31, reason: r}\n"
    file.write_text(text)
    session = session_of([repository], find_home())
    held = {test.id for test in selected(session) if test.id.startswith("jax/") and test.workload == "mlp"}
    found = since(session)
    assert {*found.reasons} == held
    assert {why.partition(" since ")[0] for why in found.reasons.values()} == {
        "expected pass, in quarantine until 2999-12-31 instead of pass"
    }
    assert {*affected_by(session, selected(session), [file]).reasons} == held


def test_what_is_no_longer_planned_is_named(repository: Path) -> None:
    (repository / "matrix" / "workloads" / "mlp" / "jax.py").unlink()
    session = session_of([repository], find_home())
    reasons = since(session).reasons
    assert {test for test, why in reasons.items() if why.startswith("no longer planned")} >= {
        "jax/linalg-loops/x86_64/mlp"
    }


@pytest.mark.parametrize("in_git", [True, False])
def test_a_catalog_outside_the_repository_is_named(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_git: bool
) -> None:
    shutil.copytree(repository / "matrix/workloads/mlp", tmp_path / "matrix/workloads/mlp2")
    shutil.copytree(repository / "golden/mlp", tmp_path / "golden/mlp2")
    if in_git:
        git(tmp_path, "init", "-q")
    monkeypatch.chdir(repository)
    session = session_of([repository, tmp_path], find_home())
    there = "run matrix there to compare them" if in_git else "it is in no git repository"
    for name, notes in (("mlp", []), ("mlp2", [f"changes of {tmp_path} are not compared; {there}"])):
        arguments = [f"jax/linalg-loops/x86_64/{name}"]
        tests = list(choose(session.catalog, arguments).tests())
        assert affected_since(session, arguments, tests, find_revision("HEAD", session.catalog.roots)).notes == notes


def test_what_a_machine_pins_is_no_part_of_the_other_plan(repository: Path) -> None:
    """The pins of now make both plans, so they are equal."""
    machine = repository / "matrix" / "machines" / "x86-64-builder.yaml"
    edit(machine, "wants:\n", "wants:\n  pins: {jax: 0.9.2}\n")
    selected = select(
        session_of([repository], find_home()), [SUITE], SelectionOptions(changed_since="HEAD", machine="x86-64-builder")
    )
    reasons = {test.reason for test in selected.tests if test.selected}
    assert reasons == {"matrix/machines/x86-64-builder.yaml changed: it can change any verdict"}


def test_what_this_machine_skips_is_still_planned(repository: Path) -> None:
    """Without any change: the plan of the other revision is of any machine."""
    target = repository / "matrix" / "targets" / "x86_64" / "target.yaml"
    target.write_text(target.read_text() + "devices: [/dev/kvm]\n")
    git(repository, "checkout", "-q", "--detach")
    git(repository, "commit", "-q", "-a", "-m", "Need a device")
    session = session_of([repository], find_home())
    skipped = select(session, [SUITE], SelectionOptions(changed_since="HEAD"))
    (line,) = skipped.lines
    assert line.startswith("0 of 2 tests can be affected by changes since ")
