"""What the recipes say about each other: each wrong thing with its place and its sentence."""

from __future__ import annotations

from typing import Any

import pytest

PLAIN = "recipes/pipelines/plain.yaml"
TOSA = "recipes/steps/torch-to-tosa/step.yaml"
TILE = "recipes/steps/tile/step.yaml"


def test_a_pipeline_that_goes_round_in_a_circle(tree: Any) -> None:
    tree.write(
        "recipes/steps/back/step.yaml",
        "description: back\nenvironment: torch\naccepts: [linalg]\ngives: tosa\npasses: back\n",
    )
    tree.edit(PLAIN, "  - canonical\n", "  - back\n  - tosa-to-linalg\n")
    assert tree.errors() == [
        f"{PLAIN}:8:5: a circle: step 'back' goes back to the kind tosa, which the route left (entry 'torch')",
        f"{PLAIN}:9:5: a circle: step 'tosa-to-linalg' goes back to the kind linalg, which the route left (entry 'linalg')",
    ]


def test_a_step_may_come_twice_while_the_kind_stays(tree: Any) -> None:
    tree.edit(PLAIN, "  - canonical\n", "  - canonical\n  - tile\n  - canonical\n")
    assert len(tree.load().pipelines["plain"].document.steps) == 4


def test_a_route_that_ends_where_no_target_is(tree: Any) -> None:
    tree.edit("matrix/targets/x86_64/target.yaml", "codegen: [object]\n", "")
    tree.edit(PLAIN, "codegen: {opt-level: 3}\n", "")
    assert tree.errors() == [
        f"{PLAIN}:3:3: this route ends with the kind linalg; targets take object",
        f"{PLAIN}:4:3: this route ends with the kind linalg; targets take object",
    ]


def test_a_route_may_end_where_a_target_begins_to_generate_code_or_where_it_runs(tree: Any) -> None:
    tree.edit(PLAIN, "  - canonical\n", "  - canonical\n  - object\n")
    assert tree.load().pipelines["plain"].document.codegen == {"opt-level": 3}


def test_a_step_whose_variants_all_have_passes_needs_none_of_its_own(tree: Any) -> None:
    tree.edit(TOSA, "passes: torch-to-tosa\n", "")
    tree.edit(TOSA, "{when: {llvm: '>=19'}}", "{when: {llvm: '>=19'}, passes: torch-to-tosa}")
    assert tree.load().steps["torch-to-tosa"].document.passes is None


def test_a_variants_files_are_read_and_checked_like_the_steps_own(tree: Any) -> None:
    tree.edit(
        TILE, "requires:", "variants: [{when: {llvm: '18'}, schedule: old.mlir}, {when: {llvm: '>18'}}]\nrequires:"
    )
    tree.write("recipes/steps/tile/old.mlir", "// ${sizes} and\n// ${seizes}\n")
    assert tree.errors() == [
        "recipes/steps/tile/old.mlir:2:4: the parameter 'seizes' is not declared; did you mean 'sizes'?"
    ]
    tree.write("recipes/steps/tile/old.mlir", "// ${sizes}\n")
    assert tree.load().steps["tile"].files.keys() == {"tile.mlir", "old.mlir"}


def test_a_target_called_ir(tree: Any) -> None:
    (tree.path / "matrix/targets/x86_64").rename(tree.path / "matrix/targets/ir")
    assert (
        "matrix/targets/ir/target.yaml:1:1: a target cannot be called 'ir': the IR tests of steps are STEP/ir/CASE"
        in tree.errors()
    )


X86 = "matrix/targets/x86_64/target.yaml"
LLVM = "toolchains/components/llvm.yaml"


@pytest.mark.parametrize(
    ("runner", "error"),
    [
        ("[qemu-aarch46, -cpu, max]", "8:10: environment 'torch' has no program 'qemu-aarch46'; did you mean 'qemu-aarch64'?"),
        ("[/usr/bin/qemu]", "8:10: environment 'torch' has no program '/usr/bin/qemu'; known: qemu-aarch64"),
        ('["q\\tu"]', "8:10: environment 'torch' has no program 'q\\tu'; known: qemu-aarch64"),
    ],
)  # fmt: skip
def test_a_runner_that_its_environment_lacks(tree: Any, runner: str, error: str) -> None:
    tree.edit(LLVM, "provider: deb\n", "provider: deb\ntools: [qemu-aarch64]\n")
    tree.write(X86, (tree.path / X86).read_text() + f"runner: {runner}\n")
    assert tree.errors() == [f"{X86}:{error}"]
    tree.edit(X86, runner, "[qemu-aarch64, -cpu, max]")
    assert tree.load().targets["x86_64"].document.runner[0] == "qemu-aarch64"


@pytest.mark.parametrize(
    ("devices", "error"),
    [
        ("[/dev/kvm, /dev/../etc/shadow]", "8:21: '/dev/../etc/shadow' is not a device or a folder below /dev"),
        ("[/etc/shadow]", "8:11: '/etc/shadow' is not a device or a folder below /dev"),
        ("['/dev/.nvidia*']", "8:11: '/dev/.nvidia*' is not a device or a folder below /dev"),
        ("[/dev]", "8:11: '/dev' is not a device or a folder below /dev"),
        ("[/dev/kvm, /dev/shm/x]", "8:21: every action has its own /dev/shm; leave it out"),
    ],
)
def test_devices_that_a_target_cannot_have(tree: Any, devices: str, error: str) -> None:
    target = (tree.path / X86).read_text()
    tree.write(X86, target + f"devices: {devices}\n")
    (found,) = tree.errors()
    assert found.startswith(f"{X86}:{error}")
    tree.write(X86, target + "devices: [/dev/dri/renderD128, '/dev/nvidia*']\n")
    assert tree.load().targets["x86_64"].document.devices == ("/dev/dri/renderD128", "/dev/nvidia*")


def test_a_runner_of_an_environment_without_programs(tree: Any) -> None:
    tree.write("toolchains/environments/python.yaml", "description: the interpreter alone\n")
    tree.edit(X86, "runner_environment: torch", "runner_environment: python\nrunner: [qemu]")
    assert tree.errors() == [f"{X86}:8:10: environment 'python' has no program 'qemu'; it has none"]
    tree.edit(X86, "runner_environment: python", "runner_environment: pyton")
    assert tree.errors() == [f"{X86}:7:1: there is no environment 'pyton'; did you mean 'python'?"]


def test_a_runner_may_be_a_program_of_the_machine(tree: Any) -> None:
    tree.edit(LLVM, "{release: 24.0.0-dev, suites", "{release: '25', provider: host, programs: [lli-25], suites")
    tree.write(X86, (tree.path / X86).read_text() + "runner: [lli-25]\n")
    assert tree.load().targets["x86_64"].document.runner == ("lli-25",)


def test_parameters_whose_names_no_pass_pipeline_can_use(tree: Any) -> None:
    text = (tree.path / TILE).read_text().replace("${size}", "${si-ze}").replace("  size:", "  si-ze:")
    tree.write(TILE, text)
    tree.edit(PLAIN, "size: 8", "si-ze: 8")
    assert tree.errors() == [f"{TILE}:5:1: 'si-ze' cannot be used here: letters, digits and '_', with a letter first"]


def test_a_schedule_that_is_no_text(tree: Any) -> None:
    tree.write("recipes/steps/tile/tile.mlir", b"${scale}\n\xff")
    assert tree.errors() == ["recipes/steps/tile/tile.mlir:2:1: is not UTF-8: byte 0xff"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("compile_only: no machine\n", "8:1: the key 'directives' is missing: nothing would be checked"),
        ("directives: a.check\n", "8:1: 'directives' has no effect without 'compile_only'"),
        ("compile_only: none\ndirectives: a.check\ndevices: [/dev/kvm]\n",
         "10:1: 'devices' has no effect: this target runs nothing"),
        ("judges: true\n", "8:1: 'judges' needs a run.py, and no 'compile_only'"),
        ("modes: {fast: {description: d, with: {opt-levle: 3}}}\n",
         "8:39: neither this target nor a codegen step of it has a parameter 'opt-levle'; did you mean 'opt-level'?"),
        ("modes: {fast: {description: d, with: {opt-level: high}}}\n",
         "8:39: the parameter 'opt-level' of step 'object' takes a whole number, got the text 'high'"),
    ],
)  # fmt: skip
def test_targets_that_only_compile_and_their_modes(tree: Any, text: str, error: str) -> None:
    tree.write(X86, (tree.path / X86).read_text() + text)
    if "a.check" in text:
        tree.write("matrix/targets/x86_64/a.check", "// CHECK: a\n")
    assert f"{X86}:{error}" in tree.errors()


def test_a_mode_is_a_target_of_its_own(tree: Any) -> None:
    tree.write(X86, (tree.path / X86).read_text() + "modes: {fast: {description: d, with: {opt-level: 3}}}\n")
    loaded = tree.load()
    fast = loaded.targets["x86_64+fast"].document
    assert fast.mode is not None
    assert (fast.mode[0], dict(fast.mode[1].parameters), fast.modes) == ("fast", {"opt-level": 3}, {})
    assert loaded.targets["x86_64"].document.mode is None
