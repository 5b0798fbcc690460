"""Which tests the change of a file can affect."""

from __future__ import annotations

import pytest

from mlir_matrix.execute.keys import ACTIONS_FOLDER, BACKENDS, tool_modules
from mlir_matrix.fleet.affected import ACTIONS, PROGRAM, concerns_all
from support import imports


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        # What finds, runs and judges actions, and what installs their packages.
        *((f"{PROGRAM}/execute/{name}.py", True) for name in ("scheduler", "lookup", "keys", "queues", "docker/pool")),
        *((f"{PROGRAM}/judge/{name}.py", True) for name in ("run", "results", "expectations", "plan_state", "affected")),
        *((f"{PROGRAM}/environments/{name}.py", True) for name in ("resolve", "install/wheel", "fetch/download")),
        *((f"{PROGRAM}/{name}.py", True) for name in ("__main__", "digest", "session", "images/layers", "report/merge")),
        *((f"{PROGRAM}/cli/{name}.py", True) for name in ("run", "run_tests", "selection", "merge", "expect", "options")),
        # What a file beside it was is unknown: a package, or what a library of C is made of.
        *((f"{PROGRAM}/{name}", True) for name in ("new.py", "new/__init__.py", "compare/gate.c", "actions/new.py")),
        # What confines and runs actions; what the program and its actions share.
        *((f"{ACTIONS}{name}.py", True) for name in ("runtime/child", "sandbox/isolation", "sandbox/root", "outcomes")),
        *((f"{ACTIONS}{name}.py", True) for name in ("expr/expression", "numerics/formats", "tools/link_kit")),
        # What starts the program, its packages, Bazel's rules, images and machines.
        *((f"tools/{name}", True) for name in ("matrix", "environment.sh", "requirements.txt")),
        *((name, True) for name in ("pyproject.toml", "MODULE.bazel", "toolchains/bazel/rules.bzl", "containers/images.yaml")),
        ("matrix/machines/x86-64-builder.yaml", True),
        # The digests of tools and of files tell; that of the worker is in every tool's.
        *((f"{ACTIONS}{name}.py", False) for name in ("tools/judge", "mlir/by_bindings", "api", "runtime/worker")),
        *((name, False) for name in ("tools/driver/main.c", "matrix/workloads/mlp/jax.py", "recipes/kinds/torch.yaml")),
        # Other verbs, tests, documents.
        *((f"{PROGRAM}/{name}.py", False) for name in ("bisect/driver", "buildbot/steps", "golden/commands", "toolchain/gc")),
        *((name, False) for name in ("tools/test", "tools/lint", "tools/requirements-dev.txt", "tools/matrix.md")),
        *((name, False) for name in ("docs/selecting-tests.md", "tests/conftest.py", ".ci/run", "benchmarks/cold.py")),
    ],
)  # fmt: skip
def test_what_concerns_all_tests(path: str, whole: bool) -> None:
    assert concerns_all(0, path) is whole
    # Another catalog may have files of these names; only its images and machines count.
    assert concerns_all(1, path) is path.startswith(("containers/", "matrix/machines/"))


def test_every_file_of_the_program_selects_what_it_can_affect() -> None:
    """What ``matrix run`` imports concerns all tests, also what actions share with it; the rest of an action its tools."""
    known, graph = imports.modules(), imports.graph()
    # These are started, not imported.
    waiting = [
        "mlir_matrix.__main__",
        "mlir_matrix.run.commands",
        "mlir_matrix.fleet.plan_state",
        "mlir_matrix.results.commands",
    ]
    reached = set[str]()
    while waiting:
        module = waiting.pop()
        if module and module not in reached:
            reached.add(module)
            waiting += [*graph.get(module, ()), module.rpartition(".")[0]]
    run = {str(known[module]) for module in reached}
    tools = [file.stem for file in ACTIONS_FOLDER.glob("tools/*.py")]
    covered = {each for tool in tools for backend in BACKENDS for each in tool_modules(tool, backend)}
    harmless, missed = set[str](), []
    for file in imports.PACKAGE.rglob("*"):
        path = f"{PROGRAM}/{file.relative_to(imports.PACKAGE)}"
        if file.is_dir() or "__pycache__" in path or concerns_all(0, path):
            continue
        is_code = file.suffix == ".py" or path.startswith(f"{PROGRAM}/site/")
        if str(file) in run or not is_code:
            missed.append(path)
        elif not path.startswith(ACTIONS):
            harmless.add(path)
        elif path.removeprefix(ACTIONS).removesuffix(".py") not in covered:
            missed.append(path)
    assert not missed
    assert len(run) > 150
    assert len(harmless) > 50
