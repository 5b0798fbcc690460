"""Compilers and runtimes that come as Python packages: right programs pass, and what is wrong with a program comes out."""

from __future__ import annotations

from pathlib import Path

from support.house import House

#: Cells of a framework, a pipeline and a target, each with what changes its program before the compiler takes it.
CELLS = {
    "onnx/onnxruntime/onnxruntime-cpu": ("Relu", "Sign"),
    "jax/xla-cpu/xla-cpu": ("stablehlo.maximum", "stablehlo.minimum"),
    "onnx/tosa-model/tosa-model": ("min_val = 0.000000e+00", "min_val = -1.000000e+00"),
    "onnx/tosa-model/tosa-model+precise": ("min_val = 0.000000e+00", "min_val = -1.000000e+00"),
    "onnx/onnx-reference/onnx-reference": ("Relu", "Sign"),
}
STEPS = {
    "onnxruntime": ("{onnx: []}", "onnxruntime"),
    "xla-cpu": ("{stablehlo: []}", "xla-cpu"),
    "tosa-model": ("{torch-onnx: [onnx-to-torch, torch-to-tosa]}", "tosa-serialize"),
    "onnx-reference": ("{onnx: []}", "onnx-opset"),
}
SPOIL = {
    "step.yaml": (
        "description: Change a program.\nenvironment: python\naccepts: [onnx, stablehlo, tosa]\n"
        "parameters:\n  old: {description: What to change., default: ''}\n  new: {description: To what., default: ''}\n"
    ),
    "tool.py": (
        "from pathlib import Path\n\n\ndef run(action):\n"
        "    old, new = (action.params['parameters'][name].encode() for name in ('old', 'new'))\n"
        "    program = Path(action.inputs['ir']).read_bytes()\n    assert old in program\n"
        "    Path(action.outputs['out']).write_bytes(program.replace(old, new))\n"
    ),
}


def write(catalog: Path, path: str, text: str) -> None:
    (catalog / path).parent.mkdir(parents=True, exist_ok=True)
    (catalog / path).write_text(text)


def test_right_programs_pass(house: House) -> None:
    outcomes = house.run(*(f"{cell}/mlp" for cell in CELLS), "pytorch/torch-eager/torch-eager/mlp").outcomes
    assert set(outcomes.values()) == {"pass"}
    assert len(outcomes) == len(CELLS) + 1


def test_what_they_take_differs(house: House) -> None:
    """Of programs at the edge each cell is as the suite frontier has it; XLA's executable finds LAPACK in another process."""
    cells = ("jax/xla-cpu/xla-cpu", "pytorch/torch-eager/torch-eager")
    report = house.run("frontier", *(f"{cell}/frontier_{{qr,custom_op}}" for cell in cells))
    assert not report.surprises()
    assert report.outcomes["jax/xla-cpu/xla-cpu/frontier_qr"] == "pass"
    assert set(report.outcomes.values()) == {"pass", "codegen-failed", "lower-failed"}


def test_what_is_wrong_comes_out(house: House, tmp_path: Path) -> None:
    """Another operator is a mismatch. What the compiler does not know, and a bad parameter, is its failure."""
    for name, text in SPOIL.items():
        write(tmp_path, f"recipes/steps/spoil/{name}", text)
    wrong = {}
    for cell, (old, new) in CELLS.items():
        framework, pipeline, target = cell.split("/")
        entry, step = STEPS[pipeline]
        for kind, becomes in (("other", new), ("unknown", "Xyzw")):
            steps = f"[{{step: spoil, with: {{old: '{old}', new: '{becomes}'}}}}, {step}]"
            write(
                tmp_path,
                f"recipes/pipelines/{kind}-{pipeline}.yaml",
                f"description: x\nentry: {entry}\nsteps: {steps}\n",
            )
        wrong[f"{framework}/other-{pipeline}/{target}/mlp"] = "mismatch"
        wrong[f"{framework}/unknown-{pipeline}/{target}/mlp"] = (
            "lower-failed" if step == "onnx-opset" else "codegen-failed"
        )
    level = "description: x\nentry: {onnx: []}\nsteps: [{step: onnxruntime, with: {level: fast}}]\n"
    write(tmp_path, "recipes/pipelines/fast.yaml", level)
    wrong["onnx/fast/onnxruntime-cpu/mlp"] = "codegen-failed"
    report = house.run(*wrong, code=1, catalog=tmp_path)
    assert report.outcomes == wrong
