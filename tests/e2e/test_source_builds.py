"""A C++ tool of somebody's own on MLIR, at two commits of a git repository, built on Debian's MLIR by Debian's compiler.

All that it takes of this machine is git, CMake and Ninja: compiler, C library and MLIR come with the prefix that the lock
in ``tests/e2e/source`` names (300 MB to fetch, once). Where packages of it have gone from the mirror, it is locked anew.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlir_matrix.environments.install.prefix import command
from support.downstream import Downstream
from support.house import REPOSITORY, House, new_home

pytestmark = pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("git", "cmake", "ninja")), reason="needs git, cmake and ninja on PATH"
)

CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(mlir-count LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(MLIR REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH ${LLVM_CMAKE_DIR})
include(HandleLLVMOptions)
add_executable(mlir-count main.cpp)
target_include_directories(mlir-count SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_link_libraries(mlir-count PRIVATE MLIR LLVM)
install(TARGETS mlir-count RUNTIME DESTINATION bin)
"""
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
    (repository / "CMakeLists.txt").write_text(CMAKE)
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
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A home with the user's packages, since the prefix is large; what these tests build there is removed."""
    made = House(new_home(tmp_path_factory.mktemp("builder") / "home"))
    remove(made)
    yield made
    remove(made)


def remove(house: House) -> None:
    for folder in (house.home / "packages").glob("mlir-count-*"):
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory, house: House) -> Path:
    """Somebody's catalog: the tool at two commits, and what it needs, which is there."""
    folder = tmp_path_factory.mktemp("tool")
    made = Downstream(folder / "catalog")
    shutil.copytree(Path(__file__).parent / "source", made.root)
    repository = folder / "repository"
    first, second = commit(repository, OPERATIONS), commit(repository, KINDS)
    text = COMPONENT.format(repository=repository, first=first, second=second)
    made.write("toolchains/components/mlir-count.yaml", text)
    done = house("toolchain", "fetch", "mlir-dev", "--quiet", "--catalog", made.root)
    if done.code == 3 and " does not have pool/" in done.stderr:
        assert house("toolchain", "lock", "mlir-dev@19.1.7", "--catalog", made.root).code == 0
        done = house("toolchain", "fetch", "mlir-dev", "--quiet", "--catalog", made.root)
    assert done.code == 0, done.stderr
    return made.root


def program(house: House, catalog: Path, release: str) -> Path:
    """The path of the tool that people are told; it is built where it is not there."""
    done = house("toolchain", "fetch", f"mlir-count@{release}", "--quiet", "--catalog", catalog)
    assert done.code == 0, done.stderr
    done = house("toolchain", "which", f"mlir-count@{release}", "--catalog", catalog)
    assert done.code == 0, done.stderr
    return Path(done.stdout.strip())


def built(house: House, catalog: Path, release: str) -> Path:
    """The tool itself, in its package."""
    packages = house.folders.packages
    return packages / program(house, catalog, release).relative_to(packages).parts[0] / "bin/mlir-count"


def counted(house: House, catalog: Path, release: str, module: Path) -> str:
    """What the tool says of a module, run without a PATH."""
    words = [program(house, catalog, release), str(module)]
    return subprocess.run(words, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}).stdout


def test_two_commits(house: House, catalog: Path, tmp_path: Path) -> None:
    """Both are built, say what their sources say, and are not built again."""
    module = tmp_path / "module.mlir"
    module.write_text(MODULE)
    done = house("toolchain", "fetch", "mlir-count@*", "--catalog", catalog)
    assert done.code == 0, done.stderr
    assert "building       mlir-count 0.1.0" in done.stderr
    # The module itself, the function, two additions and the return.
    assert counted(house, catalog, "0.1.0", module) == "MLIR 19.1.7: 5 operations\n"
    assert counted(house, catalog, "0.2.0", module) == "MLIR 19.1.7: 4 kinds\n"
    tools = [built(house, catalog, release) for release in ("0.1.0", "0.2.0")]
    before = [each.stat().st_mtime_ns for each in tools]
    again = house("toolchain", "fetch", "mlir-count@*", "--catalog", catalog)
    assert (again.code, again.stderr) == (0, "")
    assert [each.stat().st_mtime_ns for each in tools] == before
    assert house("toolchain", "verify", "mlir-count@*", "--catalog", catalog).code == 0


def test_it_runs_on_what_it_was_built_with(house: House, catalog: Path) -> None:
    """The prefix's loader and libraries, not the machine's: those may be older, or not be there."""
    folder = built(house, catalog, "0.1.0").parents[1]
    *words, path = command(folder, "mlir-count")
    done = subprocess.run([*words, "--list", path], capture_output=True, text=True, check=True, env={})
    places = [line.split(" => ")[1].split(" (")[0] for line in done.stdout.splitlines() if " => " in line]
    assert len(places) > 5
    root = os.path.realpath(house.home / "packages")
    assert not [place for place in places if not os.path.realpath(place).startswith(f"{root}/mlir-dev-")]
    assert any("libMLIR" in place for place in places)
    assert b"Debian 12" in (folder / "bin" / "mlir-count").read_bytes(), "the prefix's compiler has built it"


def test_on_a_later_debian(house: House, catalog: Path, tmp_path: Path) -> None:
    """Whose C library and loader are in other folders, and whose compiler keeps its plugins beside its programs."""
    module = tmp_path / "module.mlir"
    module.write_text(MODULE)
    later = tmp_path / "catalog"
    shutil.copytree(catalog, later)
    for lock in (later / "toolchains" / "locks").iterdir():
        lock.unlink()
    Downstream(later).write("toolchains/components/mlir-dev.yaml", LATER)
    done = house("toolchain", "lock", "mlir-dev", "--catalog", later)
    assert done.code == 0, done.stderr
    assert counted(house, later, "0.1.0", module) == "MLIR 22.1.8: 5 operations\n"


def test_damage_is_repaired(house: House, catalog: Path) -> None:
    """By building it again from the mirror: the repository may be gone."""
    damaged, repository = built(house, catalog, "0.1.0"), catalog.parent / "repository"
    damaged.write_bytes(b"")
    repository.rename(repository.with_name("away"))
    try:
        done = house("toolchain", "fetch", "mlir-count@0.1.0", "--catalog", catalog)
    finally:
        repository.with_name("away").rename(repository)
    assert done.code == 0, done.stderr
    assert "mlir-count 0.1.0 is damaged (bin/mlir-count) and is installed again" in done.stderr
    assert damaged.stat().st_size > 10_000


def test_an_action_runs_it(house: House, catalog: Path, tmp_path: Path) -> None:
    """As a program of an environment, by the words of its worker's command line alone."""
    folder = built(house, catalog, "0.2.0").parents[1]
    (tmp_path / "module.mlir").write_text(MODULE)
    code = (
        "import subprocess; from mlir_matrix.actions.runtime import contract, programs;"
        f"contract.prefixes[{str(folder)!r}] = '0.2.0'; assert programs.release('mlir-count') == '0.2.0';"
        "print(subprocess.run([*programs.command('mlir-count'), 'module.mlir'], capture_output=True, text=True).stdout)"
    )
    environment = {"PYTHONPATH": str(REPOSITORY / "tools"), "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "MLIR 19.1.7: 4 kinds"


def test_llvm_itself(tmp_path: Path) -> None:
    """Shown, not built: that takes hours."""
    house = House(new_home(tmp_path / "home"))
    done = house("toolchain", "fetch", "llvm-source@21.1.8", "--dry-run")
    assert done.code == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    words = [shlex.split(line) for line in lines]
    commit = "2078da43e25a4623cab2d0d60decddf709aaea28"
    (fetch,) = [each for each in words if "fetch" in each]
    assert {"--depth=1", "https://github.com/llvm/llvm-project"} <= set(fetch)
    assert fetch[-1] == f"+{commit}:refs/matrix/{commit}"
    (configure,) = [each for each in words if "-S" in each]
    assert configure[configure.index("-S") + 1].endswith("/source/llvm")
    wanted = {"-DLLVM_ENABLE_PROJECTS=mlir", "-DLLVM_TARGETS_TO_BUILD=X86;AArch64", "-DCMAKE_BUILD_TYPE=Release"}
    assert wanted <= set(configure)
    (ninja,) = [each for each in words if "ninja" in each]
    assert ninja[-5:] == ["mlir-opt", "mlir-translate", "mlir-runner", "llc", "opt"]
    assert not list((house.home / "packages").glob("*llvm-source*")), "nothing was run"
    assert not (house.home / "git").exists()


def test_llvms_source_is_nobodys_default(house: House) -> None:
    done = house("toolchain", "list", "llvm", "llvm-source", "--format", "json")
    rows = {row["release"]: row for row in done.document["releases"] if row["component"] == "llvm"}
    assert not [name for name, row in rows.items() if row["provider"] == "source"]
    assert "llvm-source" not in json.dumps(house.plan("smoke")["environments"])
