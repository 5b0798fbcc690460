"""Forty faults, planted one at a time: does the first cause of the run name the step, the importer or the file with the fault?

benchmarks/run faults

It takes about ten minutes. Each run has a history in which the tests passed, as on a build machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _matrix import LAUNCHER, ROOT
from _timing import verdict

from mlir_matrix.base.paths import find_home

LEAST = 0.95
#: Programs of every kind: products, windows, reductions, gathers, scans, integers, open sizes; those with expected failures.
WORKLOADS = "argmax, attention, conv2d, cumsum, flip, gelu_tanh, matmul_i8, max_pool, mlp, mlp_dynamic, scatter_add, softmax, topk"
SUITE = f"""\
description: A part of smoke.
blocks:
  - product:
      framework: [pytorch, jax, onnx, mlir]
      pipeline: [linalg-loops, linalg-vectorized, linalg-named, tosa-loops, stablehlo-loops]
      target: [x86_64]
      workload: [{WORKLOADS}]
steps: ["*"]
weak: fail
"""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An edit of a file of the catalog. ``old`` is a regular expression; each place that it matches is replaced."""

    what: str
    file: str
    old: str
    new: str = ""
    #: What the first cause must name, unless it names the file: a step, a framework, a workload or a component.
    guilty: str = ""


def without(step: str, *passes: str) -> list[Fault]:
    """Leave out passes of a step, one at a time."""
    file = f"recipes/steps/{step}/step.yaml"
    return [
        Fault(
            what=f"{step} without {each}",
            file=file,
            old=rf"(?<=[(,\s]){re.escape(each)}(?:\{{[^}}]*\}})?,\s*",
            guilty=step,
        )
        for each in passes
    ]


def changed(step: str, what: str, old: str, new: str, file: str = "step.yaml") -> Fault:
    """Change a file of a step."""
    return Fault(what=f"{step}: {what}", file=f"recipes/steps/{step}/{file}", old=old, new=new, guilty=step)


def importer(framework: str, what: str, old: str, new: str) -> Fault:
    """Change the importer of a framework."""
    file = f"matrix/frameworks/{framework}/importer.py"
    return Fault(what=f"{framework}: {what}", file=file, old=old, new=new, guilty=framework)


#: A pattern beside those of the step.
MAXIMUM_TO_MINIMUM = """
pdl.pattern @maximum : benefit(1) {
  %type = type
  %left = operand : %type
  %right = operand : %type
  %maximum = operation "stablehlo.maximum"(%left, %right : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  rewrite %maximum {
    %minimum = operation "stablehlo.minimum"(%left, %right : !pdl.value, !pdl.value) -> (%type : !pdl.type)
    replace %maximum with %minimum
  }
}
"""

FUNCTIONS = r"(func\.func\(llvm-request-c-wrappers\),)([\s\S]*?)convert-func-to-llvm,"
LINALG, SIGNLESS = (
    r"(func\.func\(stablehlo-legalize-to-linalg,shape-to-shape-lowering\),)",
    "(stablehlo-convert-to-signless,)",
)
FAULTS = [
    # Passes that are left out.
    *without("linalg-to-loops", "tm-tensor-to-loops", "convert-linalg-to-loops"),
    *without("bufferize", "buffer-deallocation-pipeline", "convert-bufferization-to-memref"),
    *without(
        "loops-to-llvm",
        "convert-scf-to-cf",
        "lower-affine",
        "func.func(llvm-request-c-wrappers)",
        "convert-math-to-libm",
        "convert-vector-to-llvm",
        "convert-arith-to-llvm",
        "finalize-memref-to-llvm",
        "convert-func-to-llvm",
        "convert-cf-to-llvm",
    ),
    *without("stablehlo-to-linalg", "stablehlo-convert-to-signless", "inline"),
    *without("tosa-to-linalg", "tosa-to-linalg-named", "tosa-to-linalg", "tosa-to-tensor"),
    changed("bufferize", "no tm-tensor-bufferize", r"func\.func\(tm-tensor-bufferize\),", ""),
    changed(
        "torch-to-linalg", "no passes but one", "torch-backend-to-linalg-on-tensors-backend-pipeline", "canonicalize"
    ),
    changed("torch-to-tosa", "no passes but one", "torch-backend-to-tosa-backend-pipeline", "canonicalize"),
    changed("bufferize", "unknown operations refused", "allow-unknown-ops ", ""),
    changed("loops-to-llvm", "no reconcile-unrealized-casts", r",\s*reconcile-unrealized-casts", ""),
    changed("vector-lowering", "no convert-vector-to-scf", r"func\.func\(convert-vector-to-scf\{[^}]*\}\),", ""),
    # Wrong options.
    changed(
        "bufferize",
        "layouts",
        "function-boundary-type-conversion=identity",
        "function-boundary-type-conversion=fully-dynamic",
    ),
    changed("bufferize", "an unknown option", "one-shot-bufferize{", "one-shot-bufferize{analyse-twice "),
    changed("loops-to-llvm", "an allocator of its own", "use-generic-functions=true", "use-generic-functions=false"),
    changed("linalg-fuse", "an unknown pass", "linalg-fuse-elementwise-ops", "linalg-fuse-elementwise-operators"),
    # Passes in another order.
    changed(
        "loops-to-llvm",
        "functions before their wrappers",
        FUNCTIONS,
        r"convert-func-to-llvm,\2\1",
    ),
    changed("stablehlo-to-linalg", "types before operators", rf"{LINALG}{SIGNLESS}", r"\2\1"),
    # Wrong numbers.
    Fault(
        what="stablehlo-to-linalg: a maximum becomes a minimum",
        file="recipes/steps/stablehlo-to-linalg/patterns.mlir",
        old=r"\Z",
        new=MAXIMUM_TO_MINIMUM,
        guilty="stablehlo-to-linalg",
    ),
    # Importers.
    importer(
        "jax",
        "the IR is cut",
        r"get_asm\(enable_debug_info=False\)\.rstrip\(\)",
        "get_asm(enable_debug_info=False)[:-9]",
    ),
    importer("jax", "an exception", r"    api\.check_arguments\(source, inputs\)", "    raise KeyError('shape')"),
    importer("pytorch", "no passes", r"session\.run\(module, TO_BACKEND\)", "pass"),
    importer(
        "pytorch",
        "half precision",
        r"program = exported\.run_decompositions",
        "program = exported.half().run_decompositions",
    ),
    importer("onnx", "a function that is not there", "infer_shapes", "infer_shape"),
    # Bounds, programs, locks.
    Fault(
        what="a bound that is too narrow",
        file="golden/softmax/tolerances.yaml",
        old=r"\(4 \+ sqrt\(N\) / 2\) \* eps\(f32\)",
        new="eps(f32) / 64",
        guilty="softmax",
    ),
    Fault(
        what="another program",
        file="matrix/workloads/mlp/linalg.mlir",
        old="arith.maximumf",
        new="arith.minimumf",
        guilty="mlp",
    ),
    Fault(
        what="a lock with another file",
        file="toolchains/locks/jax-cp3??-linux-x86_64.txt",
        old="(?<=sha256:)[0-9a-f]{8}",
        new="0" * 8,
    ),
    Fault(
        what="an older release",
        file="toolchains/known-good.yaml",
        old=r"(?m)^  llvm: .*",
        new="  llvm: 19.1.7",
        guilty="llvm",
    ),
]


class Checkout:
    """A catalog with the suite, and a home of its own with the packages of the user's, so that it has its own history."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "catalog"
        for name in ("matrix", "recipes", "toolchains", "golden"):
            shutil.copytree(ROOT / name, self.root / name)
        shutil.copytree(ROOT / "tools" / "driver", self.root / "tools" / "driver")
        smoke = (ROOT / "matrix" / "suites" / "smoke.yaml").read_text(encoding="utf-8")
        rules = smoke[smoke.index("expect:") :]
        (self.root / "matrix" / "suites" / "faults.yaml").write_text(SUITE + rules, encoding="utf-8")
        home = find_home()
        (folder / "home").mkdir()
        for name in ("packages", "artifacts", "tool", "bytecode"):
            (folder / "home" / name).symlink_to(home.cache / name, target_is_directory=True)
        self._env = {**os.environ, "MATRIX_ROOT": str(self.root), "MATRIX_HOME": str(folder / "home")}
        self.git("init", "-q")
        self.commit("All")

    def git(self, *words: str) -> None:
        """Call Git in the catalog."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.root), "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", *words], cwd=self.root, env=environment, check=True)

    def commit(self, message: str) -> None:
        """Commit all files."""
        self.git("add", "-A")
        self.git("-c", "user.name=b", "-c", "user.email=b@example.org", "commit", "-q", "-m", message)

    def run(self) -> dict[str, Any]:
        """Return the results document of a run."""
        command = [LAUNCHER, "run", "faults", "--quiet", "--format", "json"]
        done = subprocess.run(command, cwd=self.root, env=self._env, capture_output=True, text=True, check=False)
        if not done.stdout:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def plant(self, fault: Fault) -> list[str]:
        """Edit the files of a fault; return their paths."""
        paths = sorted(self.root.glob(fault.file))
        for path in paths:
            text = path.read_text(encoding="utf-8")
            edited = re.sub(fault.old, fault.new, text)
            if edited == text:
                raise SystemExit(f"{fault.what}: nothing in {path} matches {fault.old}")
            path.write_text(edited, encoding="utf-8")
        return [str(path.relative_to(self.root)) for path in paths]


def names(cause: Mapping[str, Any], fault: Fault, paths: Sequence[str]) -> bool:
    """Return whether a cause names what is guilty, or a file with the fault."""
    if fault.guilty and (cause["name"] == fault.guilty or cause["title"].startswith(f"{fault.guilty} ")):
        return True
    return any(cause.get("file") == path or path in cause["title"] for path in paths)


def main() -> int:
    """Print the first cause of each fault; exit code 1 if too few are right."""
    right, noticed = 0, 0
    with tempfile.TemporaryDirectory() as name:
        checkout = Checkout(Path(name))
        sound = checkout.run()
        if sound["causes"]:
            raise SystemExit(f"without a fault: {sound['causes'][0]['title']}")
        for fault in FAULTS:
            paths = checkout.plant(fault)
            causes = checkout.run()["causes"]
            checkout.git("checkout", "-q", ".")
            if not causes:
                print(f"     {fault.what}: no test fails")
                continue
            noticed += 1
            named = names(causes[0], fault, paths)
            right += named
            print(f"{'ok  ' if named else 'MISS'} {fault.what}: {len(causes)} causes; {causes[0]['title']}")
    print(f"     {noticed} of {len(FAULTS)} faults make tests fail")
    return 0 if verdict("faults whose first cause is right / faults", right / noticed, LEAST, at_most=False) else 1


if __name__ == "__main__":
    sys.exit(main())
