"""Large catalogs, written as YAML and read by the real loader, so that nothing is faster here than in use."""

from __future__ import annotations

from pathlib import Path

from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.load import load
from mlir_matrix.expand.checks.validate import validate

KINDS = ("linalg", "llvm", "object")
STEPS = {"lower": ("linalg", "llvm"), "emit": ("llvm", "object")}


def catalog(
    folder: Path, frameworks: int, pipelines: int, targets: int, workloads: int, *, own_steps: bool = False
) -> Catalog:
    """A catalog in a new folder. Suite ``all`` is the product; ``rules``, in large catalogs, has rules of all kinds.

    ``own_steps``: each pipeline gives its steps parameters of its own, so that pipelines share no actions.
    """
    for kind in KINDS:
        write(folder / f"recipes/kinds/{kind}.yaml", f"description: d\nfile: {kind}.mlir\n")
    # What the recipes use, and what inputs and judging are always planned in.
    for environment in ("compiler", "numpy", "filecheck"):
        write(folder / f"toolchains/environments/{environment}.yaml", "description: d\n")
    for name, (accepts, gives) in STEPS.items():
        text = (
            f"description: d\nenvironment: compiler\naccepts: [{accepts}]\ngives: {gives}\n"
            "passes: canonicalize{max-iterations=${times}}\nparameters: {times: {description: d, default: 1}}\n"
        )
        write(folder / f"recipes/steps/{name}/step.yaml", text)
        write(folder / f"recipes/steps/{name}/tests/case.mlir", "// CHECK: module\nmodule {}\n")
    text = "description: d\nenvironment: compiler\nemits: {linalg: linalg.mlir}\n"
    for number in range(frameworks):
        write(folder / f"matrix/frameworks/framework-{number:03}/framework.yaml", text)
        write(folder / f"matrix/frameworks/framework-{number:03}/importer.py", "def run(action): ...\n")
    for number in range(pipelines):
        use = f"with: {{times: {number if own_steps else 1}}}"
        text = f"description: d\nentry: {{linalg: []}}\nsteps: [{{step: lower, {use}}}, {{step: emit, {use}}}]\n"
        write(folder / f"recipes/pipelines/pipeline-{number:03}.yaml", text)
    text = (
        "description: d\ntriple: x86_64-linux-musl\naccepts: [object]\nmachine: [x86_64]\n"
        "linker_environment: compiler\nrunner_environment: compiler\n"
    )
    for number in range(targets):
        write(folder / f"matrix/targets/target-{number:03}/target.yaml", text)
    text = (
        "description: d\ninputs: {x: {shape: [2], dtype: f32, formula: iota()}}\n"
        "outputs: {y: {shape: [2], dtype: f32}}\n"
    )
    for number in range(workloads):
        home = folder / f"matrix/workloads/workload-{number:03}"
        write(home / "workload.yaml", text)
        write(home / "reference.py", "def reference(x):\n    return x\n")
        write(home / "linalg.mlir", "module {}\n")
    layer = "{match: {}, atol: 4*eps(f32), rtol: sqrt(8)*eps(f32), rationale: r}"
    write(folder / "golden/tolerances.yaml", f"layers: [{layer}]\n")
    write(folder / "matrix/suites/all.yaml", "description: d\nblocks: [{}]\n")
    if min(pipelines, workloads) >= 30:  # the rules name so many
        write(folder / "matrix/suites/rules.yaml", rules())
    return validate(load([folder]))


def rules() -> str:
    """A suite with overlapping and zipped blocks, IR tests, and many exclusions and expectations."""
    lines = [
        "description: d",
        "blocks:",
        "  - {}",
        "  - product: {framework: ['framework-00*'], target: ['*']}",
        "  - zip: {pipeline: [pipeline-001, pipeline-002], workload: [workload-001, workload-002]}",
        "steps: ['*']",
        "include: ['*/*/target-00*/workload-003']",
        "exclude:",
    ]
    for number in range(20):
        lines.append(f"  - {{tests: ['**/workload-{number:03}', 'framework-*/pipeline-{number:03}/**'], reason: r}}")
    lines.append("expect:")
    for number in range(20, 30):
        lines.append(f"  - {{tests: ['*/pipeline-{number:03}/*/workload-*'], outcome: mismatch, reason: r}}")
    return "\n".join(lines) + "\n"


def write(path: Path, text: str) -> None:
    """Write a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
