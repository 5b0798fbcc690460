"""CPU time of 120 tests with RUN lines, cold, against LLVM's own lit with the same programs: at most 1.1 times as much.

benchmarks/run run_lines

Both run two tests at a time, by the same interpreter, lit and programs. Ours is the whole command, with an empty action cache:
loading the catalog, isolation, digests and the report count. CPU time is that of all processes, of those, too, whose parents are
gone. What the programs take alone is printed beside it: no one who runs them can take less.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from _matrix import observed
from _timing import medians, verdict

from mlir_matrix.actions import contract
from mlir_matrix.actions.runtime import programs
from mlir_matrix.actions.sandbox import isolation
from mlir_matrix.environments.installer import require
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.plan.session import open_session

TESTS, RUNS, BOUND = 120, 3, 1.1
TEST = """\
// RUN: mlir-opt %s --convert-vector-to-llvm --convert-func-to-llvm --convert-arith-to-llvm --reconcile-unrealized-casts \\
// RUN: | mlir-runner -e main -entry-point-result=void -shared-libs=%mlir_c_runner_utils \\
// RUN: | FileCheck %s
// CHECK: NUMBER
func.func @main() {
  %v = arith.constant dense<[NUMBER.0, 1.0, -1.0, 0.0]> : vector<4xf32>
  %sum = vector.reduction <add>, %v : vector<4xf32> into f32
  vector.print %sum : f32
  return
}
"""
CONFIGURATION = """\
import lit.formats
from lit.llvm.subst import ToolSubst

config.name = "benchmark"
config.suffixes = [".mlir"]
config.test_format = lit.formats.ShTest()
config.test_exec_root = {output!r}
config.substitutions = [("%mlir_c_runner_utils", {library!r})]
for name, words in {words!r}.items():
    config.substitutions.append(("(?<!--argv0 )" + ToolSubst(name).regex, " ".join(words)))
"""


def spent() -> float:
    """CPU seconds of all processes that this one has started, directly or not."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_tests(folder: Path) -> None:
    """Write a catalog with the tests."""
    corpus = folder / "matrix/corpora/benchmark/corpus.yaml"
    corpus.parent.mkdir(parents=True)
    corpus.write_text("description: d\nsource: lit\nfolder: tests\n")
    (folder / "tests").mkdir()
    for number in range(TESTS):
        (folder / f"tests/t{number}.mlir").write_text(TEST.replace("NUMBER", str(number)))


def run_lit(command: list[str], sites: list[str], output: Path) -> None:
    """Run the tests by lit."""
    shutil.rmtree(output, ignore_errors=True)
    environment = {"PATH": "/nowhere", "PYTHONPATH": os.pathsep.join(sites)}
    subprocess.run(command, env=environment, capture_output=True, check=True)


def run_programs(words: dict[str, list[str]], library: Path, tests: Path) -> None:
    """Run the programs of all tests, and nothing else."""
    passes = ("vector-to-llvm", "func-to-llvm", "arith-to-llvm")
    options = [*(f"--convert-{name}" for name in passes), "--reconcile-unrealized-casts"]
    for test in sorted(tests.glob("*.mlir")):
        commands = (
            [*words["mlir-opt"], str(test), *options],
            [*words["mlir-runner"], "-e", "main", "-entry-point-result=void", f"-shared-libs={library}"],
            [*words["FileCheck"], str(test)],
        )
        output = b""
        for command in commands:
            output = subprocess.run(
                command, env={"PATH": "/nowhere"}, input=output, capture_output=True, check=True
            ).stdout


def run_ours(folder: Path, cache: Path, own_s: list[float]) -> None:
    """Run the tests by ``matrix``; add the CPU seconds of its own process."""
    shutil.rmtree(cache, ignore_errors=True)
    pattern = "lit/run-lines/lit/benchmark:*"
    report = observed(pattern, "--catalog", str(folder), "--cache-dir", str(cache), "--jobs", "2")
    outcomes = [test["outcome"] for test in report.document["tests"]]
    assert outcomes == ["pass"] * TESTS, outcomes
    own_s.append(report.own_s)


def main() -> int:
    """Print the ratio; exit code 1 where it is too high."""
    session = open_session()
    environment = session.environment("lit")
    assert isinstance(environment, ResolvedEnvironment), environment.reason
    require(session, environment)
    store = session.home.packages
    contract.prefixes.update(dict.fromkeys(environment.roots(store), ""))
    words = {name: programs.command(name) for name in ("mlir-opt", "mlir-runner", "FileCheck")}
    (library,) = (path for place in contract.prefixes for path in Path(place).rglob("libmlir_c_runner_utils.so.*.*"))
    own_s: list[float] = []
    isolation.adopt_orphans()
    with tempfile.TemporaryDirectory() as name:
        folder, output, cache = Path(name, "catalog"), Path(name, "output"), Path(name, "cache")
        write_tests(folder)
        settings = CONFIGURATION.format(output=str(output), library=str(library), words=words)
        (folder / "tests/lit.cfg.py").write_text(settings)
        start = "import sys; from lit.main import main; main()"
        command = [*environment.interpreter.command(store), "-P", "-s", "-c", start, "-j2", "-q", str(folder / "tests")]
        times = medians(
            {
                "lit": partial(run_lit, command, environment.sites(store), output),
                "ours": partial(run_ours, folder, cache, own_s),
                "programs": partial(run_programs, words, library, folder / "tests"),
            },
            RUNS,
            spent,
        )
    own = f"of which matrix itself {statistics.median(own_s):.2f}"
    print(f"     CPU seconds of {TESTS} tests: lit {times['lit']:.2f}, ours {times['ours']:.2f}, {own}")
    print(f"     their programs alone {times['programs']:.2f}")
    return 0 if verdict("ours, of lit", times["ours"] / times["lit"], BOUND, at_most=True) else 1


if __name__ == "__main__":
    sys.exit(main())
