"""What the recipes say about each other: each wrong thing with its place and its sentence."""

from __future__ import annotations

from typing import Any

import pytest

PLAIN = "recipes/pipelines/plain.yaml"
TILE = "recipes/steps/tile/step.yaml"


@pytest.mark.parametrize(
    ("file", "old", "new", "errors"),
    [
        ("toolchains/environments/torch.yaml", "[torch-mlir]", "[torchmlir]", [
            "2:14: there is no component 'torchmlir'; did you mean 'torch-mlir'?",
        ]),
        ("matrix/frameworks/pytorch.yaml", "import_pytorch", "import_pytroch", [
            "2:1: there is no tool 'import_pytroch'; did you mean 'import_pytorch'?",
        ]),
        ("matrix/frameworks/pytorch.yaml", "environment: torch", "environment: toch", [
            "3:1: there is no environment 'toch'; did you mean 'torch'?",
        ]),
        ("matrix/frameworks/mlir.yaml", "{linalg:", "{linag:", [
            "4:9: there is no kind 'linag'; did you mean 'linalg'?",
        ]),
        ("matrix/frameworks/mlir.yaml", "linalg.mlir", "reference.py", [
            "4:9: 'reference.py' is not a source: every workload has one",
        ]),
        ("matrix/targets/x86_64.yaml", "[object]", "[object, objet]", [
            "3:19: there is no kind 'objet'; did you mean 'object'?",
        ]),
        ("matrix/targets/x86_64.yaml", "linker_environment: torch", "linker_environment: zig", [
            "5:1: there is no environment 'zig'; known: torch",
        ]),
        (TILE, "environment: torch", "environment: toch", ["2:1: there is no environment 'toch'; did you mean 'torch'?"]),
        ("recipes/steps/torch-to-tosa/step.yaml", "gives: tosa", "gives: tossa", [
            "4:1: there is no kind 'tossa'; did you mean 'tosa'?",
        ]),
        (TILE, "schedule: tile.mlir", "schedule: tiles.mlir", [
            "4:1: there is no file 'tiles.mlir' in the step's folder; did you mean 'tile.mlir'?",
            "recipes/steps/tile/tile.mlir: is not read: named by none of 'schedule', 'patterns', 'directives'; "
            "did you mean 'tiles.mlir'?",
        ]),
        (TILE, "tile{size=${size}}", "tile{size=${sise}}", [
            "5:1: the parameter 'sise' is not declared; did you mean 'size'?",
            "7:3: the parameter 'size' is not used; write ${size} where it belongs",
        ]),
        (TILE, "tile{size=${size}}", "tile{size=$size}", [
            "5:1: '$' is not a parameter; write ${NAME}",
            "7:3: the parameter 'size' is not used; write ${size} where it belongs",
        ]),
        (TILE, "tile{size=${size}}", "tile{size=${size", [
            "5:1: '${size' is not a parameter; write ${NAME}",
            "7:3: the parameter 'size' is not used; write ${size} where it belongs",
        ]),
        ("recipes/steps/tile/tile.mlir", "${scale}", "${ scale}", [
            "recipes/steps/tile/step.yaml:9:3: the parameter 'scale' is not used; write ${scale} where it belongs",
            "2:4: the parameter ' scale' is not declared; did you mean 'scale'?",
        ]),
        (TILE, "transform-interpreter,", "", ["4:1: the schedule would never run: 'passes' has no transform-interpreter"]),
        (TILE, "description: tile", "description: tile\ndirectives: tile.mlir", [
            "2:1: the tool 'passes' does not take 'directives'",
        ]),
        (TILE, "description: tile", "description: tile\ntool: object", [
            "5:1: the tool 'object' does not take 'schedule'",
            "6:1: the tool 'object' does not take 'passes'",
        ]),
        ("recipes/steps/canonical/step.yaml", "directives: canonical.txt\n", "", [
            "recipes/steps/canonical/canonical.txt: is not read: named by none of 'schedule', 'patterns', 'directives'",
            "1:1: the key 'directives' is missing; the tool 'check' needs it",
        ]),
        ("recipes/steps/torch-to-tosa/step.yaml", "passes: torch-to-tosa\n", "", [
            "1:1: the key 'passes' is missing; the tool 'passes' needs it",
        ]),
        (PLAIN, "tosa-to-linalg]", "tosa-to-linag]", [
            "4:26: there is no step 'tosa-to-linag'; did you mean 'tosa-to-linalg'?",
        ]),
        (PLAIN, "linalg: []", "linag: []", ["3:3: there is no kind 'linag'; did you mean 'linalg'?"]),
        (PLAIN, "- canonical", "- plain", ["8:5: 'plain' is a pipeline; a pipeline is a list of steps, not of pipelines"]),
        (PLAIN, "size: 8", "sise: 8", ["7:12: step 'tile' has no parameter 'sise'; did you mean 'size'?"]),
        (PLAIN, "- canonical", "- {step: canonical, with: {a: 1}}", [
            "8:30: step 'canonical' has no parameter 'a'; it has none",
        ]),
        (PLAIN, "size: 8", 'size: "8"', [
            "7:12: the parameter 'size' of step 'tile' takes a whole number, got the text '8'",
        ]),
        (PLAIN, "size: 8", "size: true", ["7:12: the parameter 'size' of step 'tile' takes a whole number, got true"]),
        (PLAIN, "size: 8", "size: [8]", ["7:12: the parameter 'size' of step 'tile' takes a whole number, got a list"]),
        (PLAIN, "sizes: [1, 2, 3]", "sizes: 1", [
            "7:21: the parameter 'sizes' of step 'tile' takes a list with items a whole number like its default, "
            "got the number 1",
        ]),
        (PLAIN, "sizes: [1, 2, 3]", "sizes: [1, a]", [
            "7:21: the parameter 'sizes' of step 'tile' takes a list with items a whole number like its default, got a list",
        ]),
        (PLAIN, "scale: 1}", "scale: x}", ["7:39: the parameter 'scale' of step 'tile' takes a number, got the text 'x'"]),
    ],
)  # fmt: skip
def test_what_does_not_hold(tree: Any, file: str, old: str, new: str, errors: list[str]) -> None:
    tree.edit(file, old, new)
    assert [error.removeprefix(f"{file}:") for error in tree.errors()] == errors


def test_pipelines_that_do_not_connect(tree: Any) -> None:
    tree.edit(PLAIN, "[torch-to-tosa, tosa-to-linalg]", "[torch-to-tosa]")
    assert tree.errors() == [
        f"{PLAIN}:6:5: step 'tile' takes linalg, but after 'torch-to-tosa' the kind is tosa (entry 'torch')"
    ]


def test_an_entry_that_takes_another_kind(tree: Any) -> None:
    tree.edit(PLAIN, "[torch-to-tosa, tosa-to-linalg]", "[tosa-to-linalg]")
    assert tree.errors() == [
        f"{PLAIN}:4:11: step 'tosa-to-linalg' takes tosa, but in this entry the kind is torch (entry 'torch')"
    ]


def test_a_break_that_all_entries_share_is_said_once(tree: Any) -> None:
    tree.edit(PLAIN, "  - object\n", "  - object\n  - object\n")
    assert tree.errors() == [
        f"{PLAIN}:10:5: step 'object' takes linalg, but after 'object' the kind is object (entry 'linalg')"
    ]


def test_a_pipeline_that_goes_round_in_a_circle(tree: Any) -> None:
    tree.write(
        "recipes/steps/back/step.yaml",
        "description: back\nenvironment: torch\naccepts: [linalg]\ngives: tosa\npasses: back\n",
    )
    tree.edit(PLAIN, "  - canonical\n", "  - back\n  - tosa-to-linalg\n")
    assert tree.errors() == [
        f"{PLAIN}:8:5: a circle: step 'back' goes back to the kind tosa, which the road left (entry 'torch')",
        f"{PLAIN}:9:5: a circle: step 'tosa-to-linalg' goes back to the kind linalg, which the road left (entry 'linalg')",
    ]


def test_a_step_may_come_twice_while_the_kind_stays(tree: Any) -> None:
    tree.edit(PLAIN, "  - canonical\n", "  - canonical\n  - tile\n  - canonical\n")
    assert len(tree.load().pipelines["plain"].document.steps) == 5


def test_a_road_that_ends_where_no_target_is(tree: Any) -> None:
    tree.edit(PLAIN, "  - object\n", "")
    assert tree.errors() == [
        f"{PLAIN}:3:3: this road ends with the kind linalg; targets take object",
        f"{PLAIN}:4:3: this road ends with the kind linalg; targets take object",
    ]


def test_a_target_called_ir(tree: Any) -> None:
    (tree.path / "matrix/targets/x86_64.yaml").rename(tree.path / "matrix/targets/ir.yaml")
    assert (
        "matrix/targets/ir.yaml:1:1: a target cannot be called 'ir': the IR tests of steps are STEP/ir/CASE"
        in tree.errors()
    )


def test_parameters_whose_names_no_pass_pipeline_can_use(tree: Any) -> None:
    text = (tree.path / TILE).read_text().replace("${size}", "${si-ze}").replace("  size:", "  si-ze:")
    tree.write(TILE, text)
    tree.edit(PLAIN, "size: 8", "si-ze: 8")
    assert tree.errors() == [f"{TILE}:5:1: 'si-ze' cannot be used here: letters, digits and '_', with a letter first"]


def test_a_schedule_that_is_no_text(tree: Any) -> None:
    tree.write("recipes/steps/tile/tile.mlir", b"${scale}\n\xff")
    assert tree.errors() == ["recipes/steps/tile/tile.mlir:2:1: is not UTF-8: byte 0xff"]
