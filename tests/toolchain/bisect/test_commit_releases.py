"""Releases made up for commits: their numbers, what they are built from, and the commands of that."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.paths import Home
from mlir_matrix.bisect.commit_releases import CommitSource, find_source, plan_of_commands, with_commits
from mlir_matrix.bisect.commits import fork
from mlir_matrix.catalog.pins import Pins, find_release, release_of
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.source.package import SourceBuild
from mlir_matrix.environments.source.repository import Repository, open_repository
from support.catalogs import catalog
from support.histories import Made, make_history
from support.machine import git, needs

pytestmark = needs("git")
LLVM = """
  - {release: 17.0.6, commit: llvmorg-17.0.6}
  - {release: 18.1.8, commit: llvmorg-18.1.8, carries: [math]}
  - {release: 19.1.7, bindings: mlir, commit: "0123456789ab", carries: [torch]}
provider: source
build: {repository: https://example.com/llvm.git, options: {A: true}, targets: [opt], folder: llvm, timeout: 60}"""
IDLE = """
  - {release: "0.9", provider: source, commit: COMMIT}
  - {release: "1"}
build: {repository: ../idle}"""


def files(commit: int, _wrong: str) -> Mapping[str, str]:
    return {"code.txt": str(commit)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Tags as LLVM's: on the trunk after a release branch, and on that branch."""
    made = make_history(tmp_path_factory.mktemp("history") / "it", 12, files, culprit=5, merges=1)
    for tag, commit in (("llvmorg-18-init", 2), ("llvmorg-18.1.8", 4), ("other-20.1", 5), ("llvmorg-19.1.0-rc2", 9)):
        git(made.folder, "tag", tag, made.ids[commit])
    return made


@pytest.fixture
def session(made: Made, tmp_path: Path) -> Session:
    found = catalog(components={"llvm": LLVM, "idle": IDLE.replace("COMMIT", made.ids[3]), "onnx": "[{release: '1'}]"})
    home = Home(cache=tmp_path, state=tmp_path / "state", actions=tmp_path / "actions")
    return Session(catalog=found, home=home, pins=Pins(found))


@pytest.fixture
def repository(made: Made, tmp_path: Path) -> Repository:
    return open_repository(str(made.folder), tmp_path, [])


def build_of(session: Session, release: str, component: str = "llvm") -> SourceBuild:
    (environment,) = [
        name for name in ("e", "other") if component in session.catalog.environments[name].document.components
    ][:1]
    found = session.environment(f"{environment}@{component}={release}")
    assert isinstance(found, ResolvedEnvironment), found
    (build,) = [each for each in found.prefixes if isinstance(each, SourceBuild) and each.component == component]
    return build


def test_numbers_are_those_of_the_nearest_tag(session: Session, made: Made, repository: Repository) -> None:
    """Of the component's own kind; before the first one, that of the newest release. Variants apply by them."""
    source = find_source(session.catalog, "llvm", repo=str(made.folder))
    asked = [made.ids[each] for each in (0, 2, 3, 8, 10)]
    _, names = with_commits(session, source, repository, asked)
    versions = ["19.1.7", "18.0.0", "18.0.0", "18.1.8", "19.1.0"]
    assert names == [f"{version}+git.{commit[:12]}" for version, commit in zip(versions, asked, strict=True)]


def test_releases_are_made_up(session: Session, made: Made, repository: Repository) -> None:
    source = find_source(session.catalog, "llvm", repo=str(made.folder))
    more, (first,) = with_commits(session, source, repository, [made.ids[3]])
    more, (again, second) = with_commits(more, source, repository, [made.ids[3], made.ids[10]])
    assert again == first
    entry = more.catalog.components["llvm"]
    assert release_of(entry, second).carries == ("math",), "as the nearest release that comes as programs"
    assert find_release(entry, "18").release == "18.1.8", "short names stand for what they stood for"
    assert more.pins.release("llvm").release == session.pins.release("llvm").release
    one, two = (build_of(more, each) for each in (first, second))
    assert (one.commit, two.commit) == (made.ids[3], made.ids[10])
    assert (one.programs, one.subfolder, one.targets, one.timeout) == (("bin",), "llvm", ("opt",), 60)
    assert one.folder != two.folder
    assert one.build_folder == two.build_folder


def test_a_release_of_the_component_serves(session: Session, made: Made, repository: Repository) -> None:
    source = find_source(session.catalog, "idle", repo=str(made.folder))
    _, names = with_commits(session, source, repository, [made.ids[3], made.ids[4]])
    assert names == ["0.9", f"1.0.0+git.{made.ids[4][:12]}"]


@pytest.mark.parametrize(
    ("component", "options", "reason"),
    [
        ("lllvm", {}, "--component: there is no component 'lllvm'; did you mean 'llvm'"),
        ("onnx", {}, "onnx has no 'build' in .*: --repo DIR --build 'make install PREFIX="),
    ],
)
def test_components_that_cannot_be_built(
    session: Session, component: str, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        find_source(session.catalog, component, **options)


def test_where_sources_are(session: Session, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path in a component's file begins at its catalog, one of the command line at the working folder."""
    found = find_source(session.catalog, "idle")
    assert found.repository == os.path.normpath(session.catalog.components["idle"].root / "../idle")
    assert found.build.timeout == 4 * 60 * 60
    monkeypatch.chdir(made.folder.parent)
    given = find_source(session.catalog, "onnx", repo="./it", build="make", limit_s=5)
    assert given.repository == str(made.folder)
    assert (given.build.command, given.build.timeout) == ("make", 5)
    assert find_source(session.catalog, "llvm").repository == "https://example.com/llvm.git"


def test_a_clone_that_a_catalog_names(session: Session, made: Made, tmp_path: Path) -> None:
    """Its settings name programs, which git runs where it uses the clone itself; only that of ``--repo`` is used so."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(made.folder), str(clone))
    (clone / ".gitattributes").write_text("* filter=x\n")
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "Filter")
    git(clone, "config", "filter.x.smudge", f"touch {tmp_path}/ran; cat")
    components = {"mine": f"[{{release: '1'}}]\nprovider: source\nbuild: {{repository: {clone}}}"}
    source = find_source(catalog(components=components), "mine")
    assert source.repository == f"file://{clone}"
    for address, runs in ((source.repository, False), (str(clone), True)):
        found = open_repository(address, tmp_path, ["main"])
        folder = tmp_path / f"files-{runs}"
        folder.mkdir()
        found.write_files(found.commit("main"), ["."], folder)
        assert (folder / "code.txt").is_file()
        assert (tmp_path / "ran").exists() == runs


def test_the_files_of_a_commit_and_no_others(made: Made, tmp_path: Path) -> None:
    found = open_repository(str(made.folder), tmp_path, ["main"])
    folder = tmp_path / "files"
    folder.mkdir()
    found.write_files(found.commit("main"), ["."], folder)
    assert sorted(path.name for path in folder.iterdir()) == found.git("ls-tree", "--name-only", "main").splitlines()
    assert list(tmp_path.glob("files*")) == [folder]


def shown(session: Session, source: CommitSource) -> list[list[str]]:
    lines = plan_of_commands(session, source, "llvmorg-18.1.8", "llvmorg-19.1.0-rc2")
    return [shlex.split(line) for line in lines if not line.startswith(("#", "commit="))]


def test_commands_of_any_commit(session: Session, made: Made) -> None:
    clone, listing, *_, checkout, configure, build = shown(session, find_source(session.catalog, "llvm"))
    assert clone[-2] == "https://example.com/llvm.git"
    assert listing[1:] == [f"--git-dir={clone[-1]}", "rev-list", "--topo-order", "llvmorg-18.1.8..llvmorg-19.1.0-rc2"]
    assert checkout[-3:] == ["--reset", "-u", "$commit"]
    assert "-DA=ON" in configure
    assert build[-1] == "opt"
    listing, *_, build = shown(session, find_source(session.catalog, "llvm", repo=str(made.folder), build='cp "$0" x'))
    assert listing[1] == f"--git-dir={made.folder}/.git"
    assert build[-1] == 'cp "$0" x'
    assert [word for word in build if word.startswith("PREFIX=") and "$commit" in word]


def test_release_branches_part_on_the_trunk(made: Made, repository: Repository) -> None:
    git(made.folder, "checkout", "-q", "-B", "release", made.ids[4])
    git(made.folder, "commit", "-q", "--allow-empty", "-m", "Only here")
    assert fork(repository, "release", "main") == made.ids[4]
    git(made.folder, "checkout", "-q", "main")
