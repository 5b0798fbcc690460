"""A catalog of compilers that are Python files: a source is a factor, the code is a factor, a run multiplies its input by it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from support.downstream import Downstream

#: A compiler that is right; ``more`` changes what it gives.
COMPILER = """\
from pathlib import Path


def run(action):
    factor = float(Path(action.inputs["ir"]).read_text())
    Path(action.outputs["out"]).write_text(str(factor{more}))
"""
_FILES = {
    "recipes/kinds/factor.yaml": "description: A factor.\nfile: factor.txt\n",
    "recipes/kinds/factor-code.yaml": "description: Its code.\nfile: code.txt\n",
    "matrix/frameworks/factor/framework.yaml": (
        "description: The source as it is.\nenvironment: numpy\nemits: {factor: factor.txt}\n"
    ),
    "matrix/frameworks/factor/importer.py": (
        "import shutil\n\n\ndef run(action):\n    shutil.copyfile(action.inputs['source'], action.outputs['out'])\n"
    ),
    "matrix/targets/times/target.yaml": (
        "description: Multiplies.\naccepts: [factor-code]\nmachine: [x86_64, aarch64]\nrunner_environment: numpy\n"
    ),
    "matrix/targets/times/run.py": (
        "from pathlib import Path\n\nimport numpy as np\n\n\ndef run(action):\n"
        "    factor = np.float32(float(Path(action.inputs['artifact']).read_text()))\n"
        "    np.save(action.outputs['out-y'], np.load(action.inputs['arg-x']) * factor)\n"
    ),
}


def factors(root: Path, *workloads: str) -> Downstream:
    """Make the catalog with workloads that double their input."""
    made = Downstream(root)
    for path, text in _FILES.items():
        made.write(path, text)
    for name in workloads:
        made.workload(name)
        made.write(f"matrix/workloads/{name}/factor.txt", "2")
    return made


def compiler(
    made: Downstream, name: str, step: str = "", files: Mapping[str, str] | None = None, more: str = ""
) -> None:
    """Add a step and a pipeline; ``step`` and ``more``: further lines of their documents, ``files`` of the step's folder."""
    folder = f"recipes/steps/{name}"
    environment = "" if "environment:" in step else "environment: numpy\n"
    made.write(
        f"{folder}/step.yaml",
        f"description: d\n{environment}accepts: [factor]\ngives: factor-code\nstage: codegen\n{step}",
    )
    for path, text in ({"tool.py": COMPILER.format(more="")} if files is None else files).items():
        made.write(f"{folder}/{path}", text)
    made.write(f"recipes/pipelines/{name}.yaml", f"description: d\nentry: {{factor: []}}\nsteps: [{name}]\n{more}")
