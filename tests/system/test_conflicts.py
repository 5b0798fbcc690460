"""Conflicting tests that are planted are found, by what they take and over releases; those that a suite states are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.downstream import Downstream
from support.workspace import Workspace

#: A named form and a generalised one, of the same input.
INPUT = """\
func.func @main(%{a}: tensor<4x4xf32>, %{b}: tensor<4x4xf32>, %{c}: tensor<4x4xf32>) -> tensor<4x4xf32> {{
  %0 = linalg.matmul ins(%{a}, %{b} : tensor<4x4xf32>, tensor<4x4xf32>) outs(%{c} : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}}
"""
NAMED = "// CHECK: linalg.matmul\n// CHECK-NOT: linalg.generic\n" + INPUT.format(a="x", b="y", c="z")
GENERIC = "// CHECK: linalg.generic\n// CHECK-NOT: linalg.matmul\n" + INPUT.format(a="first", b="second", c="third")
EITHER = "// CHECK: func.func @main\n" + INPUT.format(a="p", b="q", c="r")
#: Another input, so that nothing but the releases shows it.
WIDER = GENERIC.replace("4x4", "8x8")
STEP = "description: d\nenvironment: mlir\naccepts: [linalg]\ngives: linalg\n"
KEEPS, CHANGES = (
    "func.func(canonicalize)",
    "func.func(linalg-generalize-named-ops)",
)
#: Variants of a step that changes at a release.
TURNING = """\
variants:
  - {{when: {{llvm: '>=22'}}, passes: {now}}}
  - {{when: {{llvm: '<22'}}, passes: {before}}}
"""
RULE = """\
conflicts:
  - {tests: [mlir/to-generic/ir/mm, mlir/to-named/ir/mm], reason: One for each school.}
"""
PAIR = ["mlir/to-generic/ir/mm", "mlir/to-named/ir/mm"]


@pytest.fixture
def catalog(tmp_path: Path) -> Downstream:
    made = Downstream(tmp_path / "schools")
    made.write("recipes/steps/to-named/step.yaml", f"{STEP}passes: {KEEPS}\n")
    made.write("recipes/steps/to-named/tests/mm.mlir", NAMED)
    made.write("recipes/steps/to-named/tests/either.mlir", EITHER)
    made.write("recipes/steps/to-generic/step.yaml", f"{STEP}passes: {CHANGES}\n")
    made.write("recipes/steps/to-generic/tests/mm.mlir", GENERIC)
    made.write("matrix/suites/schools.yaml", "description: d\nsteps: ['to-*']\n")
    return made


def conflicts(workspace: Workspace, catalog: Downstream, *arguments: str | Path, code: int) -> Any:
    done = workspace("conflicts", *arguments, "--catalog", catalog.root, "--format", "json")
    assert done.code == code, done.stderr or done.stdout
    return json.loads(done.stdout)


def test_two_tests_that_ask_opposite_things_of_one_input(workspace: Workspace, catalog: Downstream) -> None:
    document = conflicts(workspace, catalog, "schools", code=1)
    assert [(pair["tests"], pair["how"], pair["known"]) for pair in document["conflicts"]] == [(PAIR, "input", None)]
    assert (document["tests"], document["stale"]) == (3, [])
    (repeated,) = document["repeated"]
    assert repeated["tests"] == ["mlir/to-named/ir/either", "mlir/to-named/ir/mm"], "of one step, which passes both"
    assert workspace.run("schools", catalog=catalog.root).surprises() == set(), "each by itself is right"
    text = workspace("conflicts", "schools", "--catalog", catalog.root)
    assert text.stdout.splitlines() == [
        "conflict mlir/to-generic/ir/mm mlir/to-named/ir/mm",
        "  they take the same IR, and each output satisfies exactly one of them (here)",
        "repeated mlir/to-named/ir/either mlir/to-named/ir/mm",
        "  they are of one step and take the same IR: one test could check both (here)",
        "3 IR tests: 1 conflict, 1 not known; 1 repeated",
    ]


def test_what_a_suite_states_is_known(workspace: Workspace, catalog: Downstream) -> None:
    catalog.write("matrix/suites/schools.yaml", f"description: d\nsteps: ['to-*']\n{RULE}")
    (pair,) = conflicts(workspace, catalog, "schools", code=0)["conflicts"]
    assert pair["known"]["reason"] == "One for each school."
    assert pair["known"]["position"].endswith("matrix/suites/schools.yaml:4:5")


def test_what_is_stated_and_not_so_is_stale(workspace: Workspace, catalog: Downstream) -> None:
    stale = RULE.replace("mlir/to-named/ir/mm", "mlir/to-named/ir/either")
    catalog.write("recipes/steps/to-generic/tests/mm.mlir", EITHER)
    catalog.write("matrix/suites/schools.yaml", f"description: d\nsteps: ['to-*']\n{stale}")
    document = conflicts(workspace, catalog, "schools", code=1)
    assert document["conflicts"] == []
    assert [each["tests"] for each in document["stale"]] == [["mlir/to-generic/ir/mm", "mlir/to-named/ir/either"]]


def test_two_tests_of_a_step_that_ask_the_same(workspace: Workspace, catalog: Downstream) -> None:
    catalog.write("recipes/steps/to-named/tests/again.mlir", NAMED.replace("%x", "%left"))
    document = conflicts(workspace, catalog, "schools", "mlir/to-named/ir/*", code=0)
    assert ["mlir/to-named/ir/again", "mlir/to-named/ir/mm"] in [pair["tests"] for pair in document["repeated"]]


def turning(catalog: Downstream) -> None:
    """A step that changes its mind at a release, with a test for either."""
    catalog.write("recipes/steps/turns/step.yaml", STEP + TURNING.format(now=CHANGES, before=KEEPS))
    catalog.write("recipes/steps/turns/tests/before.mlir", NAMED)
    catalog.write("recipes/steps/turns/tests/after.mlir", WIDER)


def test_tests_that_pass_in_turn_over_releases(workspace: Workspace, catalog: Downstream) -> None:
    turning(catalog)
    once = conflicts(workspace, catalog, "mlir/turns/ir/*", "--over", "llvm=19", code=0)
    assert once["conflicts"] == [], "one release shows nothing"
    document = conflicts(workspace, catalog, "mlir/turns/ir/*", "--over", "llvm=19,22", code=1)
    assert document["conflicts"] == [
        {
            "tests": ["mlir/turns/ir/after", "mlir/turns/ir/before"],
            "how": "releases", "where": ["llvm=19", "llvm=22"], "known": None, "passes": [],
            "alone": {"mlir/turns/ir/after": ["llvm=22"], "mlir/turns/ir/before": ["llvm=19"]},
        }
    ]  # fmt: skip


def test_the_same_in_documents_of_results(workspace: Workspace, catalog: Downstream, tmp_path: Path) -> None:
    turning(catalog)
    # Two steps of different kinds that have a pass in common, which finds no operation before LLVM 22.
    variants = TURNING.format(now=CHANGES, before=CHANGES.replace("func.func", "gpu.module"))
    for name, kind, test, text in (("turns", "linalg", "before", NAMED), ("enters", "tosa", "after", WIDER)):
        step = STEP.replace("linalg", kind, 1)
        catalog.write(f"recipes/steps/{name}/step.yaml", f"{step}{variants}")
        catalog.write(f"recipes/steps/{name}/tests/{test}.mlir", text)
    tests = ["mlir/turns/ir/before", "mlir/enters/ir/after"]
    files: list[str | Path] = []
    for release in ("19", "22"):
        done = workspace("run", *tests, "--pin", f"llvm={release}", "--catalog", catalog.root, "--format", "json")
        assert done.code == 1
        files += ["--results", tmp_path / f"{release}.json"]
        (tmp_path / f"{release}.json").write_text(done.stdout)
    (pair,) = conflicts(workspace, catalog, *tests, *files, code=1)["conflicts"]
    assert (pair["tests"], pair["passes"]) == (sorted(tests), ["linalg-generalize-named-ops"])
    line = workspace("conflicts", *tests, *files, "--catalog", catalog.root).stdout.splitlines()[1]
    assert line == (
        "  they demand opposite things of linalg-generalize-named-ops: "
        f"mlir/enters/ir/after passes under llvm {pair['alone'][tests[1]][0].removeprefix('llvm ')}, "
        f"mlir/turns/ir/before passes under llvm 19.1.7 in {tmp_path / '19.json'}; if one passes, the other breaks"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["mlir/to-named/ir/mm"], "conflicts are between two IR tests or more; 1 IR test without pins selected"),
        (["schools", "--over", "llvm"], "--over llvm: expected COMPONENT=RELEASE,RELEASE, e.g. llvm=19,22"),
        (["schools", "--over", "llvm=99"], "llvm has no release '99'"),
        (["schools", "--results", "none.json"], "--results none.json: No such file or directory"),
        (["schools", "--results", "matrix"], ""),
    ],
)
def test_what_cannot_be_asked(workspace: Workspace, catalog: Downstream, arguments: list[str], says: str) -> None:
    done = workspace("conflicts", *arguments, "--catalog", catalog.root, cwd=catalog.root)
    assert done.code == 2
    assert says in done.stderr


def test_a_document_that_is_none(workspace: Workspace, catalog: Downstream, tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"schema": "mlir-matrix/plan/v1", "tests": []}'):
        path = tmp_path / "odd.json"
        path.write_text(text)
        done = workspace("conflicts", "schools", "--results", path, "--catalog", catalog.root)
        assert (done.code, "not a document of results" in done.stderr) == (2, True)


def test_none_of_our_own_conflict(workspace: Workspace) -> None:
    assert workspace("conflicts").code == 0
