"""A C++ tool of somebody's own on MLIR, at two commits of a git repository, built on Debian's MLIR by Debian's compiler.

All that it takes of this machine is git, CMake and Ninja: compiler, C library and MLIR come with the prefix that the lock
in ``tests/system/source`` names (300 MB to fetch, once). Where packages of it have gone from the mirror, it is locked anew.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mlir_matrix.base.events import ignore
from mlir_matrix.bisect.commit_releases import CommitSource, find_source, plan_of_commands, with_commits
from mlir_matrix.bisect.commits import list_commits
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.installed.prefix import read_prefix
from mlir_matrix.environments.installer import install_all
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.source.repository import open_repository
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests, select_tests, session_of
from mlir_matrix.results.results import TestResult
from mlir_matrix.results.run_plan import run_plan
from support.downstream import Downstream
from support.histories import CMAKE, Made, make_history, mlir_files, plain_files, write_catalog
from support.machine import needs
from support.mlir_dev import CATALOG, fetch
from support.workspace import REPOSITORY, Workspace, new_home

pytestmark = needs("git", "cmake", "ninja")

MAIN = """\
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Config/llvm-config.h"
#include <cstdio>
#include <set>

int main(int argc, char **argv) {
  mlir::MLIRContext context;
  context.loadDialect<mlir::func::FuncDialect, mlir::arith::ArithDialect>();
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(argc > 1 ? argv[1] : "-", &context);
  if (!module)
    return 1;
  @
}
"""
OPERATIONS = """\
int count = 0;
  module->walk([&](mlir::Operation *) { ++count; });
  std::printf("MLIR %s: %d operations\\n", LLVM_VERSION_STRING, count);"""
KINDS = """\
std::set<llvm::StringRef> kinds;
  module->walk([&](mlir::Operation *op) { kinds.insert(op->getName().getStringRef()); });
  std::printf("MLIR %s: %zu kinds\\n", LLVM_VERSION_STRING, kinds.size());"""
MODULE = """\
func.func @f(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32
  %1 = arith.addi %0, %a : i32
  return %1 : i32
}
"""
COMPONENT = """\
description: Counts what is in a module.
provider: source
tools: [mlir-count]
build:
  repository: {repository}
  needs: {{mlir-dev: {{MLIR_DIR: "usr/lib/llvm-{{major}}/lib/cmake/mlir"}}}}
releases:
  - {{release: 0.1.0, commit: {first}}}
  - {{release: 0.2.0, commit: {second}}}
"""
#: As ``source`` has it, of a Debian whose /lib is a link.
LATER = """\
description: MLIR's headers and libraries, and a compiler with the C library that they were built with
provider: deb
tools: [mlir-tblgen]
packages: ["libmlir-{major}-dev", "mlir-{major}-tools", "llvm-{major}-dev", g++-14, libc6-dev]
alone: [base-files]
programs: ["usr/lib/llvm-{major}/bin", usr/bin, usr/libexec/gcc/x86_64-linux-gnu/14]
releases:
  - {release: 22.1.8, suites: [trixie]}
"""


def commit(repository: Path, body: str) -> str:
    """A commit with the tool; the same one whenever it is made."""
    repository.mkdir(exist_ok=True)
    cmake = CMAKE.replace("mlir-number", "mlir-count").replace(" number.cpp", "")
    (repository / "CMakeLists.txt").write_text(cmake)
    (repository / "main.cpp").write_text(MAIN.replace("@", body))
    date = "2026-01-01T00:00:00Z"
    environment = {
        "PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(repository),
        "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date,
    }  # fmt: skip
    who = ("-c", "user.name=x", "-c", "user.email=x@example.com")

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *who, *words], cwd=repository, env=environment, check=True, stdout=subprocess.PIPE
        )
        return done.stdout.decode().strip()

    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "The tool")
    return git("rev-parse", "HEAD")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A home with the user's packages, since the prefix is large; what these tests build there is removed."""
    made = Workspace(new_home(tmp_path_factory.mktemp("builder") / "home"))
    remove(made)
    yield made
    remove(made)


def remove(workspace: Workspace) -> None:
    for folder in (workspace.home / "packages").glob("mlir-count-*"):
        shutil.rmtree(folder)


@contextmanager
def removed_after(session: Session, component: str, names: list[str]) -> Iterator[None]:
    """Remove what is built of commits, and that alone: others use the packages as well."""
    try:
        yield
    finally:
        for name in names:
            found = session.environment(f"{component}@{component}={name}")
            assert isinstance(found, ResolvedEnvironment)
            for build in found.prefixes:
                shutil.rmtree(session.home.packages / build.folder_for(""), ignore_errors=True)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory, workspace: Workspace) -> Path:
    """Somebody's catalog: the tool at two commits, and what it needs, which is there."""
    folder = tmp_path_factory.mktemp("tool")
    made = Downstream(folder / "catalog")
    shutil.copytree(CATALOG, made.root)
    repository = folder / "repository"
    first, second = commit(repository, OPERATIONS), commit(repository, KINDS)
    text = COMPONENT.format(repository=repository, first=first, second=second)
    made.write("toolchains/components/mlir-count.yaml", text)
    fetch(workspace, made.root)
    return made.root


def program(workspace: Workspace, catalog: Path, release: str) -> Path:
    """The path of the tool that people are told; it is built where it is not there."""
    done = workspace("toolchain", "fetch", f"mlir-count@{release}", "--quiet", "--catalog", catalog)
    assert done.code == 0, done.stderr
    done = workspace("toolchain", "which", f"mlir-count@{release}", "--catalog", catalog)
    assert done.code == 0, done.stderr
    return Path(done.stdout.strip())


def built(workspace: Workspace, catalog: Path, release: str) -> Path:
    """The tool itself, in its package."""
    packages = workspace.folders.packages
    return packages / program(workspace, catalog, release).relative_to(packages).parts[0] / "bin/mlir-count"


def counted(workspace: Workspace, catalog: Path, release: str, module: Path) -> str:
    """What the tool says of a module, run without a PATH."""
    words = [program(workspace, catalog, release), str(module)]
    return subprocess.run(words, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}).stdout


def test_two_commits(workspace: Workspace, catalog: Path, tmp_path: Path) -> None:
    """Both are built, say what their sources say, and are not built again."""
    module = tmp_path / "module.mlir"
    module.write_text(MODULE)
    done = workspace("toolchain", "fetch", "mlir-count@*", "--catalog", catalog)
    assert done.code == 0, done.stderr
    assert "building       mlir-count 0.1.0" in done.stderr
    # The module itself, the function, two additions and the return.
    assert counted(workspace, catalog, "0.1.0", module) == "MLIR 19.1.7: 5 operations\n"
    assert counted(workspace, catalog, "0.2.0", module) == "MLIR 19.1.7: 4 kinds\n"
    tools = [built(workspace, catalog, release) for release in ("0.1.0", "0.2.0")]
    before = [each.stat().st_mtime_ns for each in tools]
    again = workspace("toolchain", "fetch", "mlir-count@*", "--catalog", catalog)
    assert (again.code, again.stderr) == (0, "")
    assert [each.stat().st_mtime_ns for each in tools] == before
    assert workspace("toolchain", "verify", "mlir-count@*", "--catalog", catalog).code == 0


def test_it_runs_on_what_it_was_built_with(workspace: Workspace, catalog: Path) -> None:
    """The prefix's loader and libraries, not the machine's: those may be older, or not be there."""
    folder = built(workspace, catalog, "0.1.0").parents[1]
    *words, path = read_prefix(folder).argv(str(folder), "mlir-count")
    done = subprocess.run([*words, "--list", path], capture_output=True, text=True, check=True, env={})
    places = [line.split(" => ")[1].split(" (")[0] for line in done.stdout.splitlines() if " => " in line]
    assert len(places) > 5
    root = os.path.realpath(workspace.home / "packages")
    assert not [place for place in places if not os.path.realpath(place).startswith(f"{root}/mlir-dev-")]
    assert any("libMLIR" in place for place in places)
    assert b"Debian 12" in (folder / "bin" / "mlir-count").read_bytes(), "the prefix's compiler has built it"


def test_on_a_later_debian(workspace: Workspace, catalog: Path, tmp_path: Path) -> None:
    """Whose C library and loader are in other folders, and whose compiler keeps its plugins beside its programs."""
    module = tmp_path / "module.mlir"
    module.write_text(MODULE)
    later = tmp_path / "catalog"
    shutil.copytree(catalog, later)
    for lock in (later / "toolchains" / "locks").iterdir():
        lock.unlink()
    Downstream(later).write("toolchains/components/mlir-dev.yaml", LATER)
    done = workspace("toolchain", "lock", "mlir-dev", "--catalog", later)
    assert done.code == 0, done.stderr
    assert counted(workspace, later, "0.1.0", module) == "MLIR 22.1.8: 5 operations\n"


def test_damage_is_repaired(workspace: Workspace, catalog: Path) -> None:
    """By building it again from the mirror: the repository may be gone."""
    damaged, repository = built(workspace, catalog, "0.1.0"), catalog.parent / "repository"
    damaged.write_bytes(b"")
    repository.rename(repository.with_name("away"))
    try:
        done = workspace("toolchain", "fetch", "mlir-count@0.1.0", "--catalog", catalog)
    finally:
        repository.with_name("away").rename(repository)
    assert done.code == 0, done.stderr
    assert "mlir-count 0.1.0 is damaged (bin/mlir-count) and is installed again" in done.stderr
    assert damaged.stat().st_size > 10_000


def test_an_action_runs_it(workspace: Workspace, catalog: Path, tmp_path: Path) -> None:
    """As a program of an environment, by the words of its worker's command line alone."""
    folder = built(workspace, catalog, "0.2.0").parents[1]
    (tmp_path / "module.mlir").write_text(MODULE)
    code = (
        "import subprocess; from mlir_matrix.actions import contract; from mlir_matrix.actions.runtime import programs;"
        f"contract.prefixes[{str(folder)!r}] = '0.2.0'; assert programs.release('mlir-count') == '0.2.0';"
        "print(subprocess.run([*programs.command('mlir-count'), 'module.mlir'], capture_output=True, text=True).stdout)"
    )
    environment = {"PYTHONPATH": str(REPOSITORY / "tools"), "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "MLIR 19.1.7: 4 kinds"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A history with merges, of which the commit in the middle is the culprit."""
    folder = tmp_path_factory.mktemp("history") / "number"
    return make_history(folder, 40, mlir_files, culprit=22, seed=3)


@pytest.fixture(scope="module")
def bisected(workspace: Workspace, catalog: Path, made: Made) -> tuple[Session, CommitSource]:
    """A session with the catalog of the tool, and how its commits are built."""
    write_catalog(Downstream(catalog), made, "mlir-number")
    session = session_of([REPOSITORY, catalog], workspace.folders)
    return session, find_source(session.catalog, "mlir-number")


def built_in(session: Session, names: list[str]) -> dict[str, str]:
    """Install releases; return the errors by package."""
    environments = [session.environment(f"mlir-number@mlir-number={name}") for name in names]
    return install_all(
        [each for each in environments if isinstance(each, ResolvedEnvironment)],
        session.home.packages, Artifacts(session.home.artifacts), ignore,
    )  # fmt: skip


def run(session: Session, names: list[str]) -> list[TestResult]:
    """Run tests; return their results in this order."""
    done = run_plan(session, plan_tests(session, select_tests(session, names)), limits=Limits(jobs=2), fail_fast=False)
    return [{each.id: each for each in done.results}[name] for name in names]


def test_commits_of_a_history(bisected: tuple[Session, CommitSource], made: Made, workspace: Workspace) -> None:
    """Built one after the other in one folder, then run as the program of a step; one cannot be built."""
    session, source = bisected
    repository = open_repository(source.repository, session.home.cache, ["main"])
    commits = list_commits(repository, made.ids[0], "main")
    assert len(commits.ids) == 40
    assert any(len(parents) > 1 for parents in commits.parents)
    unbuildable = min(made.unbuildable)
    before = max(set(made.parents[made.culprit]) - made.unbuildable)
    asked = [made.ids[each] for each in (before, made.culprit, unbuildable)]
    session, names = with_commits(session, source, repository, asked)
    assert names == [f"1.0.0+git.{each[:12]}" for each in asked]
    with removed_after(session, "mlir-number", names):
        check_builds(session, workspace, names)


def check_builds(session: Session, workspace: Workspace, names: list[str]) -> None:
    before, after, broken = names
    assert not built_in(session, [before])
    (folder,) = (workspace.home / "builds").iterdir()
    (kept,) = folder.rglob("main.cpp.o")
    compiled = kept.stat().st_mtime_ns
    assert not built_in(session, [after])
    assert kept.stat().st_mtime_ns == compiled, "only what differs is compiled"
    assert [each.name for each in sorted(folder.iterdir())] == ["0", "0.lock"], "both in one folder"
    errors = built_in(session, [broken])
    (error,) = errors.values()
    assert "error: #error it cannot be built; see the log " in error
    again = built_in(session, [broken, before, after])
    (note,) = folder.glob("*.failed")
    assert [*again.values()] == [f"{error} (tried before; to build it again, remove {note})"]
    results = run(session, [f"mlir/mlir-number/ir/four@mlir-number={name}" for name in names])
    assert [each.outcome for each in results] == ["pass", "mismatch", "infra-error"]
    assert "it cannot be built" in results[-1].reason
    said = workspace("toolchain", "gc", "--dry-run").stdout
    assert f"would be removed: build folder {folder.name}" in said
    assert f"would be removed: mlir-number-{before}-" in said


def test_bisect_searches_a_history(
    workspace: Workspace, catalog: Path, bisected: tuple[Session, CommitSource], made: Made
) -> None:
    """The culprit among merges, and commits that cannot be built; a second bisection builds nothing."""
    ends = ("--good", made.ids[0][:10], "--bad", "main")
    words = ("bisect", "mlir/mlir-number/ir/four", "--catalog", catalog, *ends, "--format", "json")
    try:
        done = workspace(*words)
        assert done.code == 0, done.stderr
        (found,) = done.document["tests"]
        (change,) = found["changes"]
        culprit = made.ids[made.culprit][:12]
        assert (change["kind"], change["after"], change["candidates"]) == ("broke", culprit, [culprit])
        assert change["before"] in [made.ids[each][:12] for each in made.parents[made.culprit]]
        assert any(line.startswith("+") and "test.number = 5" in line for line in change["difference"])
        # The culprit and what is before it were each seen more than once.
        seen = {point["release"]: sum(point["observations"].values()) for point in found["points"]}
        assert seen[culprit] + seen[change["before"]] >= 4
        assert f"| {culprit} " in Path(found["report"]).read_text()
        assert done.stderr.count("building       mlir-number") <= 18
        again = workspace(*words)
        assert "building" not in again.stderr
        assert again.document["tests"][0]["changes"] == found["changes"]
    finally:
        for each in (workspace.home / "packages").glob("mlir-number-*+git.*"):
            shutil.rmtree(each)
    fixed = workspace(*words[:4], "--good", "main", "--bad", made.ids[0], "--quiet")
    assert fixed.code == 2
    assert f"--good main comes after --bad {made.ids[0]}; swap them" in fixed.stderr


def test_by_the_machines_compiler(tmp_path: Path, workspace: Workspace) -> None:
    """A program that a command builds needs the machine's libraries: actions see these."""
    made = make_history(tmp_path / "plain", 4, plain_files(), culprit=2, seed=4)
    catalog = Downstream(tmp_path / "theirs")
    test = write_catalog(catalog, made, "plain-number")
    session = session_of([REPOSITORY, catalog.root], workspace.folders)
    source = find_source(session.catalog, "plain-number")
    repository = open_repository(source.repository, session.home.cache, [])
    session, names = with_commits(session, source, repository, made.ids)
    assert names[0] == "1.0.0", "a release that the component has"
    with removed_after(session, "plain-number", names):
        results = run(session, [f"{test}@plain-number={name}" for name in names])
    assert [each.outcome for each in results] == ["pass", "pass", "mismatch", "mismatch"]


def test_llvm_itself(tmp_path: Path) -> None:
    """Shown, not built: that takes hours."""
    home = new_home(tmp_path / "home")
    session = session_of([REPOSITORY], Workspace(home).folders)
    source = find_source(session.catalog, "llvm")
    lines = list(plan_of_commands(session, source, "llvmorg-21.1.0", "llvmorg-22.1.0"))
    words = [shlex.split(line) for line in lines if not line.startswith("#")]
    (clone,) = [each for each in words if "clone" in each]
    assert {"--filter=blob:none", "https://github.com/llvm/llvm-project"} <= set(clone)
    (listing,) = [each for each in words if "rev-list" in each]
    assert listing[-1] == "llvmorg-21.1.0..llvmorg-22.1.0"
    (checkout,) = [each for each in words if "read-tree" in each]
    assert checkout[-1] == "$commit"
    (configure,) = [each for each in words if "-S" in each]
    assert configure[configure.index("-S") + 1].endswith("/source/llvm")
    wanted = {"-DLLVM_ENABLE_PROJECTS=mlir", "-DLLVM_TARGETS_TO_BUILD=X86;AArch64", "-DCMAKE_BUILD_TYPE=Release"}
    assert wanted <= set(configure)
    (ninja,) = [each for each in words if "ninja" in each]
    assert {"mlir-opt", "mlir-translate", "mlir-runner", "llc", "opt"} <= set(ninja)
    assert not list((home / "packages").glob("*llvm-*+git*")), "nothing was run"
    assert not (home / "git").exists()
