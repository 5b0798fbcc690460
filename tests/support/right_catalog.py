"""A small catalog in which everything is right, for tests that then make one thing wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from mlir_matrix.base.errors import CatalogError
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.load import load
from mlir_matrix.expand.checks.validate import validate

RIGHT: Mapping[str, str] = {
    "recipes/kinds/torch.yaml": "description: torch dialect\nfile: torch.mlir\n",
    "recipes/kinds/tosa.yaml": "description: TOSA\nfile: tosa.mlir\n",
    "recipes/kinds/linalg.yaml": "description: linalg on tensors\nfile: linalg.mlir\n",
    "recipes/kinds/object.yaml": "description: an object file\nfile: kernel.o\n",
    "recipes/steps/torch-to-tosa/step.yaml": (
        "description: to TOSA\nenvironment: torch\naccepts: [torch]\ngives: tosa\npasses: torch-to-tosa\n"
        "variants:\n"
        "  - {when: {llvm: '>=19'}}\n"
        "  - {when: {llvm: '18', torch-mlir: '>=2026'}, passes: torch-to-old-tosa}\n"
    ),
    "recipes/steps/tosa-to-linalg/step.yaml": (
        "description: to linalg\nenvironment: torch\naccepts: [tosa]\ngives: linalg\npasses: tosa-to-linalg\n"
    ),
    "recipes/steps/tile/step.yaml": (
        "description: tile\n"
        "environment: torch\n"
        "accepts: [linalg]\n"
        "schedule: tile.mlir\n"
        "passes: transform-interpreter,tile{size=${size}}\n"
        "parameters:\n"
        "  size: {description: the size, default: 4}\n"
        "  sizes: {description: more sizes, default: [8, 8]}\n"
        "  scale: {description: a scale, default: 0.5}\n"
        "requires:\n"
        "  - {component: torch-mlir, releases: '>=2026', carries: stablehlo, reason: because}\n"
    ),
    "recipes/steps/tile/tile.mlir": "// [${sizes}]\n// ${scale}\n",
    "recipes/steps/tile/tests/basic.mlir": "// CHECK: func\n",
    "recipes/steps/canonical/step.yaml": (
        "description: looks right\ntool: check\nenvironment: torch\naccepts: [linalg]\ndirectives: canonical.txt\n"
    ),
    "recipes/steps/canonical/canonical.txt": "// CHECK: linalg.matmul\n",
    "recipes/steps/object/step.yaml": (
        "description: code\ntool: object\nenvironment: torch\naccepts: [linalg]\ngives: object\nstage: codegen\n"
        "parameters: {opt-level: {description: how hard, default: 2}}\n"
    ),
    "recipes/pipelines/plain.yaml": (
        "description: plain\n"
        "entry:\n"
        "  linalg: []\n"
        "  torch: [torch-to-tosa, tosa-to-linalg]\n"
        "steps:\n"
        "  - step: tile\n"
        "    with: {size: 8, sizes: [1, 2, 3], scale: 1}\n"
        "  - canonical\n"
        "codegen: {opt-level: 3}\n"
    ),
    "matrix/frameworks/pytorch/framework.yaml": (
        "description: PyTorch\nenvironment: torch\nemits: {torch: pytorch.py}\n"
    ),
    "matrix/frameworks/mlir/framework.yaml": (
        "description: by hand\nenvironment: torch\nemits: {linalg: linalg.mlir}\n"
    ),
    "matrix/frameworks/pytorch/importer.py": "raise SystemExit('loading runs no code')\n",
    "matrix/frameworks/mlir/importer.py": "raise SystemExit('loading runs no code')\n",
    "matrix/workloads/mlp/workload.yaml": (
        "description: a perceptron\n"
        "dims: {B: 8, K: 32}\n"
        "dynamic: [B]\n"
        "inputs:\n"
        '  x: {shape: [B, K], dtype: f32, formula: "uniform(-1, 1) / sqrt(K)", seed: 1}\n'
        "outputs:\n"
        "  y: {shape: [B, 3], dtype: f32}\n"
        "absent: {mlir: nobody wrote it}\n"
        "requires: [{component: llvm, releases: '!=18.1.0', reason: it crashed}]\n"
    ),
    "matrix/workloads/mlp/reference.py": "raise SystemExit('loading runs no code')\n",
    "matrix/workloads/mlp/pytorch.py": "raise SystemExit('loading runs no code')\n",
    # Of two dtypes, so that each tolerance layer wins somewhere.
    "matrix/workloads/sums/workload.yaml": (
        "description: sums and their number\n"
        "dims: {K: 32}\n"
        'inputs: {x: {shape: [K], dtype: f64, formula: "iota()"}}\n'
        "outputs: {sum: {shape: [1], dtype: f64}, number: {shape: [1], dtype: i32, compare: exact}}\n"
    ),
    "matrix/workloads/sums/reference.py": "raise SystemExit('loading runs no code')\n",
    "matrix/targets/x86_64/target.yaml": (
        "description: here\ntriple: x86_64-linux-musl\naccepts: [object]\ncodegen: [object]\nmachine: [x86_64]\n"
        "linker_environment: torch\nrunner_environment: torch\n"
    ),
    "matrix/suites/smoke.yaml": (
        "description: smoke\n"
        "blocks:\n"
        "  - product: {framework: [pytorch], pipeline: ['*']}\n"
        "steps: [tile]\n"
        "include: ['pytorch/**']\n"
        "exclude:\n"
        "  - {tests: [mlir/tile/ir/basic], reason: because}\n"
        "expect:\n"
        "  - {tests: ['*/plain/*/mlp'], outcome: mismatch, reason: because}\n"
    ),
    "matrix/suites/releases.yaml": (
        "description: releases\n"
        "blocks:\n"
        "  - product: {workload: [mlp]}\n"
        "    pins: {llvm: ['18', 19.1.7], torch-mlir: ['20261001']}\n"
        "exclude:\n"
        "  - {tests: ['**@llvm=18*'], reason: because}\n"
    ),
    "toolchains/environments/torch.yaml": "description: torch\ncomponents: [torch-mlir, llvm]\n",
    "toolchains/components/torch-mlir.yaml": (
        "description: torch-mlir\nreleases:\n"
        '  - {release: "20260901"}\n'
        '  - {release: "20261001", bindings: torch_mlir, carries: [stablehlo]}\n'
    ),
    "toolchains/components/llvm.yaml": (
        "description: LLVM\n"
        "provider: deb\n"
        'packages: ["mlir-{major}-tools"]\n'
        "releases:\n"
        "  - {release: 18.1.8, suites: [trixie]}\n"
        "  - {release: 19.1.7, suites: [bookworm, trixie]}\n"
        "  - {release: 24.0.0-dev, suites: [sid], durability: rolling}\n"
    ),
    "toolchains/components/iree.yaml": (
        "description: built here\n"
        "provider: source\n"
        "build:\n"
        "  repository: https://example.org/iree\n"
        "  needs: {llvm: {MLIR_DIR: lib/cmake/mlir}}\n"
        "releases: [{release: 3.8.0, commit: 0123456789abcdef0123456789abcdef01234567}]\n"
    ),
    "toolchains/known-good.yaml": (
        'pins:\n  torch-mlir: "20261001"\n  llvm: 19.1.7\nenvironments:\n  torch: {llvm: 18.1.8}\n'
    ),
    "golden/tolerances.yaml": (
        "layers:\n"
        "  - {atol: 0, rtol: 1e-6, rationale: the general one}\n"
        "  - {match: {dtype: f64, pipeline: 'p*'}, atol: 0.0, rtol: 1e-5, rationale: another}\n"
    ),
    "golden/mlp/tolerances.yaml": "layers: [{match: {output: y}, atol: 1e-7, rtol: 0, rationale: special}]\n",
    "golden/mlp/y.npy": "not read by the loader",
}


class Tree:
    """A catalog on disk."""

    def __init__(self, path: Path, files: Mapping[str, str]) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            self.write(name, text)

    def write(self, name: str, text: str | bytes) -> Path:
        """Write one file and the folders that it needs."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a part of a file that must be there once."""
        text = (self.path / name).read_text()
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {name}"
        self.write(name, text.replace(old, new))

    def load(self, *others: Path) -> Catalog:
        """Load this catalog, then others. Tests that edit a workload leave its golden as it is."""
        return validate(load([self.path, *others]), stale_goldens=True)

    def errors(self, *others: Path) -> list[str]:
        """The lines of the error that loading must raise."""
        with pytest.raises(CatalogError) as caught:
            self.load(*others)
        assert caught.value.exit_code == 2
        return str(caught.value).split("\n")
