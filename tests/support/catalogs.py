"""Small catalogs for tests, from the same YAML text and through the same parser and models as real ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models import base, toolchains
from mlir_matrix.catalog.models import suites as suite_models
from mlir_matrix.catalog.yaml_reader import Source, parse

D = TypeVar("D", bound=base.Document)

FRAMEWORKS = {
    "pytorch": "environment: e\nemits: {torch: pytorch.py}",
    "jax": "environment: e\nemits: {stablehlo: jax.py}",
    "onnx": "environment: o\nemits: {torch-onnx: onnx.py}",
    "mlir": "environment: e\nemits: {linalg: linalg.mlir, tosa: tosa.mlir}",
}
STEPS = {
    "onnx-to-torch": "accepts: [torch-onnx]\ngives: torch",
    "torch-to-linalg": "accepts: [torch]\ngives: linalg",
    "torch-to-tosa": "accepts: [torch]\ngives: tosa",
    "stablehlo-to-linalg": "accepts: [stablehlo]\ngives: linalg",
    "tosa-to-linalg": "accepts: [tosa]\ngives: linalg",
    "tile": (
        "accepts: [linalg]\n"
        "parameters:\n  size: {description: d, default: 8}\n  unroll: {description: d, default: true}\n"
        "variants:\n- {when: {llvm: '>=19'}, passes: new}\n- {when: {llvm: '18'}, passes: old}"
    ),
    "lower": "accepts: [linalg]\ngives: llvm",
    "emit": "accepts: [llvm]\ngives: object\nparameters: {opt-level: {description: d, default: 2}}",
}
CASES = {"torch-to-linalg": ("add", "mm"), "tile": ("mm",), "lower": ()}
PIPELINES = {
    "linalg-loops": (
        "entry:\n  linalg: []\n  torch: [torch-to-linalg]\n  torch-onnx: [onnx-to-torch, torch-to-linalg]\n"
        "  stablehlo: [stablehlo-to-linalg]\nsteps: [lower]"
    ),
    "linalg-tiled": (
        "entry:\n  torch: [torch-to-linalg]\n  linalg: []\n"
        "steps:\n  - step: tile\n    with: {size: 4}\n  - lower\ncodegen: {opt-level: 3}"
    ),
    "tosa-loops": (
        "entry:\n  tosa: [tosa-to-linalg]\n  torch: [torch-to-tosa, tosa-to-linalg]\n"
        "  torch-onnx: [onnx-to-torch, torch-to-tosa, tosa-to-linalg]\n  linalg: []\nsteps: [lower, emit]"
    ),
}
#: One pipeline ends in what x86_64 runs; for the others the target generates code.
TARGETS = {"x86_64": "accepts: [object]\ncodegen: [emit]", "wasm": "accepts: [llvm]", "gpu": "accepts: [ptx, hsaco]"}
#: Source files by workload; ``topk`` cannot be expressed in onnx.
WORKLOADS = {
    "mlp": ("pytorch.py", "jax.py", "onnx.py", "linalg.mlir", "tosa.mlir"),
    "softmax": ("pytorch.py", "jax.py", "tosa.mlir"),
    "topk": ("pytorch.py", "jax.py"),
}
ABSENT = {"topk": {"onnx": "its order is not defined"}}
REQUIRES = {"softmax": "[{component: llvm, releases: '!=17', reason: it has no exp}]"}
#: ``o`` is only onnx's, ``zig`` only a linker's; nothing uses the component ``idle``.
ENVIRONMENTS = {
    "e": "components: [llvm]",
    "o": "components: [onnx, llvm]",
    "zig": "components: [ziglang]",
    "python": "{}",
    "numpy": "{}",
    "other": "components: [llvm, idle]",
}
#: The releases of each component; the default is in ``KNOWN_GOOD``, else the last that is not rolling.
COMPONENTS = {
    "llvm": "[{release: 16.0.6}, {release: 17.0.6}, {release: 18.1.8}, {release: 19.1.7, bindings: mlir}, {release: 22.1.8}]",
    "onnx": "[{release: 1.22.0}, {release: 1.23.2}]",
    "ziglang": "[{release: 0.16.0}, {release: 0.17.0}, {release: 0.18.0-dev, durability: rolling}]",
    "idle": "[{release: '1'}]",
}
KNOWN_GOOD = "pins: {llvm: 19.1.7}"
_REST = {
    "frameworks": "description: d\n",
    "steps": "description: d\nenvironment: e\n",
    "pipelines": "description: d\n",
    "targets": "description: d\ntriple: t\nmachine: [m]\n",
}


def catalog(suites: Mapping[str, str] | None = None, **changes: Any) -> Catalog:
    """The catalog above with suites by name (YAML without the description), and with whole kinds of things replaced."""
    made: dict[str, Any] = {}
    for kind, model, texts in (
        ("frameworks", base.Framework, FRAMEWORKS),
        ("pipelines", base.Pipeline, PIPELINES),
        ("targets", base.Target, TARGETS),
    ):
        chosen = changes.get(kind, texts)
        made[kind] = {name: entry(kind, model, name, _REST[kind] + text) for name, text in chosen.items()}
    made["steps"] = {
        name: entry("steps", base.Step, name, _REST["steps"] + text, cases=changes.get("cases", CASES).get(name, ()))
        for name, text in changes.get("steps", STEPS).items()
    }
    made["workloads"] = {
        name: workload(
            name, files, changes.get("absent", ABSENT).get(name, {}), changes.get("requires", REQUIRES).get(name, "[]")
        )
        for name, files in changes.get("workloads", WORKLOADS).items()
    }
    made["environments"] = {
        name: entry("environments", toolchains.Environment, name, f"description: d\n{text.removeprefix('{}')}")
        for name, text in changes.get("environments", ENVIRONMENTS).items()
    }
    made["components"] = {
        name: entry("components", toolchains.Component, name, f"description: d\nreleases: {text}")
        for name, text in changes.get("components", COMPONENTS).items()
    }
    known = changes.get("known_good", KNOWN_GOOD)
    made["known_good"] = [
        entry("toolchains", toolchains.KnownGood, "known-good", text)
        for text in ([known] if isinstance(known, str) else known)
    ]
    made["suites"] = {name: suite(name, text) for name, text in (suites or {}).items()}
    return make(**made)


def suite(name: str, text: str) -> Entry[suite_models.Suite]:
    """A suite from YAML; line 1 of its file is the description, so that ``text`` begins in line 2."""
    return entry("suites", suite_models.Suite, name, f"description: d\n{text}")


def workload(name: str, files: Iterable[str], absent: Mapping[str, str], requires: str = "[]") -> Entry[base.Workload]:
    """A workload with these source files."""
    lines = [
        "description: d",
        f"requires: {requires}",
        "inputs: {x: {shape: [2], dtype: f32, formula: iota()}}",
        "outputs: {y: {shape: [2], dtype: f32}}",
    ]
    if absent:
        lines += ["absent:", *(f"  {framework}: {reason}" for framework, reason in absent.items())]
    return entry("workloads", base.Workload, name, "\n".join(lines), files=tuple(files))


def entry(kind: str, model: type[D], name: str, text: str, **more: Iterable[str]) -> Entry[D]:
    """One parsed and validated file."""
    source: Source = parse(text, f"{kind}/{name}.yaml")
    folder = Path(kind)
    paths = {key: {file: folder / name / file for file in files} for key, files in more.items()}
    document = model.model_validate(source.data)
    return Entry(name=name, document=document, source=source, root=Path(), folder=folder, **paths)


def make(**kinds: Any) -> Catalog:
    """A catalog of these entries, sorted as loaded ones are; what is not given is empty."""
    names = (
        "kinds",
        "frameworks",
        "workloads",
        "steps",
        "pipelines",
        "targets",
        "suites",
        "environments",
        "components",
        "machines",
    )
    found: Any = {name: dict(sorted(kinds.get(name, {}).items())) for name in names}
    return Catalog(roots=(), layers=(), known_good=tuple(kinds.get("known_good", ())), **found)
