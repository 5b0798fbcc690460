"""Git repositories with many commits: merges, commits that cannot be built, and one culprit."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from support.downstream import Downstream

#: A program on MLIR: it writes a module with the number of its operations.
CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(mlir-number LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(MLIR REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH ${LLVM_CMAKE_DIR})
include(HandleLLVMOptions)
add_executable(mlir-number main.cpp number.cpp)
target_include_directories(mlir-number SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
target_link_libraries(mlir-number PRIVATE MLIR LLVM)
install(TARGETS mlir-number RUNTIME DESTINATION bin)
"""
MAIN = """\
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

int number(int operations);

int main(int, char **argv) {
  mlir::MLIRContext context;
  context.loadDialect<mlir::func::FuncDialect, mlir::arith::ArithDialect>();
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(argv[1], &context);
  std::error_code error;
  llvm::raw_fd_ostream file(argv[2], error);
  if (!module || error)
    return 1;
  int operations = 0;
  module->walk([&](mlir::Operation *) { ++operations; });
  (*module)->setAttr("test.number", mlir::Builder(&context).getI32IntegerAttr(number(operations)));
  module->print(file);
}
"""
#: The same in plain C, which the machine's compiler builds in a moment: it counts the lines of a text.
PLAIN = """\
#include <stdio.h>
int number(int lines);
int main(int count, char **argv) {
  FILE *from = fopen(argv[1], "r"), *to = fopen(argv[2], "w");
  int lines = 0;
  if (count < 3 || !from || !to)
    return 1;
  for (int each; (each = getc(from)) != EOF;)
    lines += each == '\\n';
  fprintf(to, "// test.number = %d\\n", number(lines));
  return fclose(to);
}
"""
NEEDS = """\
  needs: {mlir-dev: {MLIR_DIR: "usr/lib/llvm-{major}/lib/cmake/mlir"}}
"""
#: ``--build`` of the program in plain C.
COMMAND = 'mkdir "$PREFIX/bin" && "$CC" -o "$PREFIX/bin/plain-number" main.c number.c'
COMPONENT = """\
description: Numbers what is in a module.
provider: source
tools: [{name}]
build:
  repository: {repository}
{build}releases:
  - {{release: 1.0.0, commit: {first}}}
"""
STEP = """\
description: Numbers what is in a module.
environment: {name}
accepts: [linalg]
gives: linalg
command: [{name}, "${{ir}}", "${{out}}"]
"""
#: Four lines, and four operations: the module itself, the function, an addition and the return.
CASE = """\
func.func @main(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32
  return %0 : i32
} // CHECK: test.number = 4
"""
#: The files of a commit, by its number and what is wrong with it: nothing, ``bad`` or ``unbuildable``.
Files = Callable[[int, str], Mapping[str, str]]
#: Flaky commits fail by the nanoseconds of the clock, of which there are so many different ones.
_CLOCK = 1000


@dataclass(frozen=True, kw_only=True)
class Made:
    """A repository; commits are numbers in topological order, the oldest first."""

    folder: Path
    ids: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...]
    culprit: int
    unbuildable: frozenset[int]
    #: The culprit and all commits that come after it.
    bad: frozenset[int]


def mlir_files(commit: int, wrong: str) -> Mapping[str, str]:
    """Return the files of the program on MLIR, of which one changes."""
    return {"CMakeLists.txt": CMAKE, "main.cpp": MAIN, "number.cpp": _changing(commit, wrong)}


def plain_files(flaky: float = 1) -> Files:
    """Return the files of the program in plain C; ``flaky``: how often a bad commit fails."""
    return lambda commit, wrong: {"main.c": PLAIN, "number.c": _changing(commit, wrong, flaky)}


def _changing(commit: int, wrong: str, flaky: float = 1) -> str:
    more = f" + (now.tv_nsec % {_CLOCK} < {flaky * _CLOCK:.0f})" if wrong == "bad" else ""
    return (
        f"// Commit {commit}\n#include <time.h>\n"
        + ("#error it cannot be built\n" if wrong == "unbuildable" else "")
        + "int number(int found) {\n  struct timespec now;\n  clock_gettime(CLOCK_REALTIME, &now);\n"
        + f"  return found{more};\n}}\n"
    )


def make_history(
    folder: Path, count: int, files: Files, *, culprit: int, unbuildable: float = 0.1, merges: int = 8, seed: int = 0
) -> Made:
    """Make ``count`` commits with a merge of a short branch for every ``merges`` commits; the ends can be built.

    Another ``seed`` gives other commits: tests that share packages and run at once need that.
    """
    draw = random.Random(seed)
    chosen = {each for each in range(1, count - 1) if each != culprit and draw.random() < unbuildable}
    parents = tuple(_parents(count, merges))
    bad = {culprit}
    for commit, found in enumerate(parents):
        if bad & {*found}:
            bad.add(commit)
    stream = []
    for commit, found in enumerate(parents):
        wrong = "unbuildable" if commit in chosen else "bad" if commit in bad else ""
        subject = f"Merge commit {found[1]}" if len(found) > 1 else f"Change {commit}"
        stream.append(_commit(commit, seed, subject, found, files(commit, wrong)))
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*words: str, data: bytes = b"") -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], input=data, env=environment, check=True, capture_output=True
        )
        return done.stdout.decode()

    folder.mkdir(parents=True)
    git("init", "-q", "-b", "main")
    git("fast-import", "--quiet", "--export-marks=.git/marks", data=b"".join(stream))
    git("reset", "-q", "--hard")
    marks = dict(line.split() for line in (folder / ".git" / "marks").read_text().splitlines())
    ids = tuple(marks[f":{each + 1}"] for each in range(count))
    return Made(
        folder=folder, ids=ids, parents=parents, culprit=culprit, unbuildable=frozenset(chosen), bad=frozenset(bad)
    )


def _parents(count: int, merges: int) -> Iterator[tuple[int, ...]]:
    """Yield the parents of each commit: in every block, two commits on a branch beside two others, and their merge."""
    for commit in range(count):
        place = commit % merges
        if commit == 0:
            yield ()
        elif place == 3 and merges > 4 and commit + 2 < count:
            yield (commit - 3,)  # The branch begins before the last two.
        elif place == 5 and merges > 5:
            yield (commit - 3, commit - 1)
        else:
            yield (commit - 1,)


def _commit(number: int, seed: int, subject: str, parents: tuple[int, ...], files: Mapping[str, str]) -> bytes:
    date = 1_700_000_000 + 60 * (number + 100_000 * seed)
    lines = [f"commit refs/heads/main\nmark :{number + 1}\ncommitter x <x@example.com> {date} +0000\n"]
    lines += [f"data {len(subject.encode())}\n{subject}\n"]
    lines += [f"{'merge' if place else 'from'} :{each + 1}\n" for place, each in enumerate(parents)]
    lines += [f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}\n" for path, text in files.items()]
    return "".join(lines).encode()


def write_catalog(catalog: Downstream, made: Made, name: str = "mlir-number") -> str:
    """Write a component, ``mlir-number`` or ``plain-number``, and a step that runs it; return the step's test.

    The catalog has ``mlir-dev``, which the first one needs.
    """
    build = NEEDS if name == "mlir-number" else f"  command: '{COMMAND}'\n"
    text = COMPONENT.format(name=name, repository=made.folder, build=build, first=made.ids[0])
    catalog.write(f"toolchains/components/{name}.yaml", text)
    catalog.write(f"toolchains/environments/{name}.yaml", f"description: The tool\ncomponents: [{name}]\n")
    catalog.write(f"recipes/steps/{name}/step.yaml", STEP.format(name=name))
    catalog.write(f"recipes/steps/{name}/tests/four.mlir", CASE)
    return f"mlir/{name}/ir/four"
