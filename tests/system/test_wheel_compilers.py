"""Compilers and runtimes that come as Python packages: right programs pass, and what is wrong with a program comes out."""

from __future__ import annotations

from pathlib import Path

from support.workspace import REPOSITORY, Workspace

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


#: The client of jaxlib 0.4.30 to 0.5.3, whose wheels are too large for a test: what it can do has had other names since.
OLD_CLIENT = """


class _Executable:
    def __init__(self, real):
        self.real = real


class _Client:
    def __init__(self, real):
        self.real = real
        self.local_devices = real.local_devices

    def _devices(self):
        return xla_client.DeviceList(tuple(self.real.local_devices()))

    def compile(self, text, options):
        return _Executable(self.real.compile_and_load(text, self._devices(), options))

    def serialize_executable(self, executable):
        return executable.real.serialize()

    def deserialize_executable(self, code, options):
        return self.real.deserialize_executable(code, self._devices(), options)
"""


def write(catalog: Path, path: str, text: str) -> None:
    (catalog / path).parent.mkdir(parents=True, exist_ok=True)
    (catalog / path).write_text(text)


def test_right_programs_pass(workspace: Workspace) -> None:
    outcomes = workspace.run(*(f"{cell}/mlp" for cell in CELLS), "pytorch/torch-eager/torch-eager/mlp").outcomes
    assert set(outcomes.values()) == {"pass"}
    assert len(outcomes) == len(CELLS) + 1


def test_what_they_take_differs(workspace: Workspace) -> None:
    """Of programs at the edge each cell is as the suite frontier has it; XLA's executable finds LAPACK in another process."""
    cells = ("jax/xla-cpu/xla-cpu", "pytorch/torch-eager/torch-eager")
    report = workspace.run("frontier", *(f"{cell}/frontier_{{qr,custom_op}}" for cell in cells))
    assert not report.surprises()
    assert report.outcomes["jax/xla-cpu/xla-cpu/frontier_qr"] == "pass"
    assert set(report.outcomes.values()) == {"pass", "codegen-failed", "lower-failed"}


def test_what_is_wrong_comes_out(workspace: Workspace, tmp_path: Path) -> None:
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
    report = workspace.run(*wrong, code=1, catalog=tmp_path)
    assert report.outcomes == wrong


def test_an_old_jaxlib_takes_the_same_programs(workspace: Workspace, tmp_path: Path) -> None:
    """A name that it does not have yet is no failure of its compiler; nor is a flag, at which it would abort."""
    places = {"recipes/steps/xla-cpu": "recipes/steps/xla-old", "matrix/targets/xla-cpu": "matrix/targets/xla-old"}
    older = {
        "xla_client.make_cpu_client()": "_Client(xla_client.make_cpu_client())",
        "from jaxlib.version import __version_info__ as version": "version = (0, 4, 30)",
        "device.client.deserialize": "_Client(device.client).deserialize",
        "hasattr(device.client,": "hasattr(_Client(device.client),",
    }
    replaced = set()
    for source, target in places.items():
        for file in (REPOSITORY / source).iterdir():
            text = file.read_text()
            replaced |= {old for old in older if old in text}
            for old, new in older.items():
                text = text.replace(old, new)
            write(tmp_path, f"{target}/{file.name}", text + (OLD_CLIENT if file.suffix == ".py" else ""))
    assert replaced == set(older)
    pipeline = "description: x\nentry: {stablehlo: []}\nsteps: [xla-old]\n"
    write(tmp_path, "recipes/pipelines/xla-old.yaml", pipeline)
    report = workspace.run("jax/xla-old/xla-old/mlp", catalog=tmp_path)
    assert set(report.outcomes.values()) == {"pass"}, report.told()
