"""The commits between two ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError, MatrixError, UsageError
from mlir_matrix.bisect.commits import Commits, list_commits
from mlir_matrix.bisect.search.history import history
from mlir_matrix.environments.source.repository import Repository, open_repository
from support.histories import Made, make_history
from support.machine import git, needs

pytestmark = needs("git")
COUNT, CULPRIT = 40, 19


#: As MLIR defines a pass.
TABLE = 'def ExpandMath : Pass<"expand-math", "func::FuncOp">;\n'


def files(commit: int, wrong: str) -> Mapping[str, str]:
    passes = {"include/mlir/Math/Passes.td": TABLE, "lib/Math/Expand.cpp": f"{commit // 10}"}
    return {"code.txt": f"{commit} {wrong}", "lib/math.txt": f"{commit // 10}", **passes}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    made = make_history(tmp_path_factory.mktemp("history") / "it", COUNT, files, culprit=CULPRIT)
    git(made.folder, "tag", "v1.0", made.ids[2])
    git(made.folder, "branch", "work", made.ids[30])
    return made


def opened(made: Made, cache: Path) -> Repository:
    return open_repository(str(made.folder), cache, [])


def listed(made: Made, cache: Path, good: str, bad: str) -> Commits:
    return list_commits(opened(made, cache), good, bad)


def test_the_ancestors_between_two_ends(made: Made, tmp_path: Path) -> None:
    """In topological order with their parents; the history is that of a search."""
    found = listed(made, tmp_path, made.ids[0][:10], "main")
    assert set(found.ids) == set(made.ids)
    assert (found.ids[found.good], found.ids[found.bad]) == (made.ids[0], made.ids[-1])
    for index, parents in enumerate(found.parents):
        number = made.ids.index(found.ids[index])
        assert {found.ids[each] for each in parents} == {made.ids[each] for each in made.parents[number]}
        assert all(each < index for each in parents)
    assert sum(len(each) > 1 for each in found.parents) >= 4
    search = history(found.parents)
    inside, _ = search.split(search.between([found.good], found.bad), found.ids.index(made.ids[CULPRIT]))  # type: ignore[arg-type]
    assert len(search.listed(inside)) == CULPRIT - lost(made)
    assert list(tmp_path.iterdir()) == [], "a clone is used as it is"


def lost(made: Made) -> int:
    """How many commits before the culprit are no ancestors of it: those of a branch that is merged later."""
    ancestors, waiting = {CULPRIT}, [CULPRIT]
    while waiting:
        new = {*made.parents[waiting.pop()]} - ancestors
        ancestors |= new
        waiting += new
    return CULPRIT + 1 - len(ancestors)


def test_names_of_ends(made: Made, tmp_path: Path) -> None:
    found = listed(made, tmp_path, "v1.0", "work")
    assert (found.ids[0], found.ids[-1]) == (made.ids[2], made.ids[30])


def test_only_first_parents(made: Made, tmp_path: Path) -> None:
    """A line, also if the good end is on a branch that was merged into it."""
    ends = made.ids[0], "main"
    found = list_commits(opened(made, tmp_path), *ends, first_parent=True)
    assert found.parents == ((), *((each,) for each in range(len(found.ids) - 1)))
    assert found.ids[0] == made.ids[0]
    assert len(found.ids) < COUNT
    merged = next(parents[1] for parents in made.parents if len(parents) > 1)
    beside = list_commits(opened(made, tmp_path), made.ids[merged], "main", first_parent=True)
    assert beside.ids[0] == made.ids[merged]
    assert beside.good == 0
    assert beside.subjects[0] == f"Change {merged}"
    assert set(beside.ids[1:]) < set(found.ids)


def test_commits_that_touch_files(made: Made, tmp_path: Path) -> None:
    found = listed(made, tmp_path, made.ids[0], "main")
    assert {made.ids.index(found.ids[each]) for each in found.touching(["lib"])} == {10, 11, 20, 30}, (
        "one of a branch as well"
    )
    assert found.touching(["lib/*.txt", "none"]) == found.touching(["lib"])
    assert len(found.touching(["code.txt"])) > COUNT - 10
    line = list_commits(opened(made, tmp_path), made.ids[0], "main", first_parent=True)
    touching = {made.ids.index(line.ids[each]) for each in line.touching(["lib"])}
    assert touching == {10, 21, 30}, "a merge for what it merged"


def wrong(made: Made, cache: Path, good: str, bad: str) -> str:
    with pytest.raises(UsageError) as error:
        listed(made, cache, good, bad)
    return str(error.value)


def test_wrong_ends(made: Made, tmp_path: Path) -> None:
    assert wrong(made, tmp_path, "v2.0", "main") == f"'v2.0' is no commit, tag or branch of {made.folder}"
    assert wrong(made, tmp_path, "--help", "main").startswith("'--help' is no commit")
    assert "--good main and --bad main are the same commit, " in wrong(made, tmp_path, "main", "main")
    assert wrong(made, tmp_path, "main", "v1.0") == "--good main comes after --bad v1.0; swap them"


def test_two_roots(made: Made, tmp_path: Path) -> None:
    """Histories that were joined: the second root is a commit like others."""
    folder = tmp_path / "joined"
    git(tmp_path, "clone", "-q", str(made.folder), str(folder))
    git(folder, "checkout", "-q", "--orphan", "other")
    git(folder, "commit", "-qm", "Another root")
    other = git(folder, "rev-parse", "HEAD")
    git(folder, "merge", "-q", "-s", "ours", "--allow-unrelated-histories", "-m", "Join", "main")
    repository = open_repository(str(folder), tmp_path, [])
    found = list_commits(repository, made.ids[0], "HEAD")
    assert len(found.ids) == COUNT + 2
    assert [index for index, each in enumerate(found.parents) if not each] == sorted(
        found.ids.index(each) for each in (other, made.ids[0])
    )
    with pytest.raises(UsageError, match="they have no ancestor in common"):
        list_commits(repository, other, made.ids[9])


def test_a_history_that_is_cut_off(made: Made, tmp_path: Path) -> None:
    folder = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=12", f"file://{made.folder}", str(folder))
    repository = open_repository(str(folder), tmp_path, [])
    advice = f"fetch all of it: git -C {folder} fetch --unshallow"
    with pytest.raises(UsageError, match=advice):
        list_commits(repository, made.ids[0], "HEAD")
    assert len(list_commits(repository, "HEAD~2", "HEAD").ids) == 3, "what is there is enough"


def test_changes_that_are_not_committed(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "dirty"
    git(tmp_path, "clone", "-q", str(made.folder), str(folder))
    (folder / "code.txt").write_text("mine")
    before = (folder / ".git" / "index").stat().st_mtime_ns
    found = list_commits(open_repository(str(folder / "lib"), tmp_path, []), "HEAD~2", "HEAD")
    assert found.warnings == (f"{folder}/lib has changes that are not committed (code.txt); they are not used",)
    assert (folder / ".git" / "index").stat().st_mtime_ns == before
    # As in a clone of another user.
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    repository = open_repository(str(folder), tmp_path, [])
    assert repository.changed_files == ["code.txt"]
    (folder / ".git" / "index").write_text("no index")
    assert repository.changed_files == [], "git cannot tell"


def test_a_mirror(made: Made, tmp_path: Path) -> None:
    """It is cloned once, and fetched again for what is new: a name that it lacks, or a branch, which moves on."""
    address, told = f"file://{made.folder}", list[str]()
    origin = tmp_path / "origin"
    git(tmp_path, "clone", "-q", "--mirror", str(made.folder), str(origin))
    address = f"file://{origin}"

    def tell(message: str) -> None:
        told.append(message)

    for revisions in (["v1.0", "main"], ["v1.0", made.ids[5][:9]], ["work"], ["v9"]):
        found = open_repository(address, tmp_path, revisions, tell)
    new = f"fetching what is new in {address}"
    assert told == [f"cloning {address}, once", new, new]
    assert found.folder.is_relative_to(tmp_path / "git")
    assert list_commits(found, "v1.0", "work").ids[-1] == made.ids[30]
    git(origin, "branch", "-f", "work", made.ids[31])
    moved = open_repository(address, tmp_path, ["work"])
    assert moved.commit("work") == made.ids[31]


@pytest.mark.parametrize(
    ("address", "kind", "reason"),
    [
        ("--upload-pack=touch ran", UsageError, "is not an address or folder that git can fetch from"),
        ("ext::sh -c true", UsageError, "is not an address or folder that git can fetch from"),
        ("http://127.0.0.1:1/x.git", InfrastructureError, "http://127.0.0.1:1/x.git cannot be cloned: fatal: "),
        ("EMPTY", UsageError, "is not a git repository"),
    ],
)
def test_wrong_addresses(tmp_path: Path, address: str, kind: type[MatrixError], reason: str) -> None:
    where = str(tmp_path) if address == "EMPTY" else address
    with pytest.raises(kind, match=reason):
        open_repository(where, tmp_path / "cache", [])


def test_commits_that_change_the_files_of_passes(made: Made, tmp_path: Path) -> None:
    """The sources beside the file that defines a pass; a pass that nothing defines has none."""
    found = listed(made, tmp_path, made.ids[0], "main")
    assert found.of_passes(["expand-math", "cse"]) == found.touching(["lib/Math"]) != frozenset()
    assert found.of_passes(["loop-unroll"]) == found.of_passes([]) == frozenset()


def test_passes_in_a_folder_with_an_odd_name(tmp_path: Path) -> None:
    """Git would take ``:(x`` for a pattern, and quotes what is not ASCII."""

    def passes(commit: int, _: str) -> Mapping[str, str]:
        return {f"{name}/Passes.td": f"// {commit}\n{TABLE}" for name in (":(x", "é*")}

    made = make_history(tmp_path / "it", 3, passes, culprit=1)
    found = listed(made, tmp_path, made.ids[0], "main")
    assert found.of_passes(["expand-math"]) == {1, 2}


def test_without_git(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match="no git on PATH"):
        opened(made, tmp_path)
