"""``matrix bisect --over steps`` on faults that are planted in what a step gives: how often it names the step.

benchmarks/run whose_fault

Each fault changes one operation or constant of the IR after a step of ``linalg-loops``, in the default release alone. Faults
that do not change the verdict are replaced by others.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from _timing import verdict

from mlir_matrix.base.errors import UsageError
from mlir_matrix.bisect.steps.localize import Localized, localize
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.ir.levels import find_levels
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import open_session, select_tests

FAULTS = 60
PIPELINE = "mlir/linalg-loops/x86_64"
WORKLOADS = (
    "softmax",
    "mlp",
    "layernorm",
    "gelu",
    "matmul",
    "conv2d",
    "attention",
    "batch_matmul",
    "reduce_sum",
    "rsqrt",
)
STEPS = ("linalg-fuse", "bufferize", "linalg-to-loops", "loops-to-llvm")
LIMITS = Limits(jobs=2)
#: What a fault does to the text: a pattern, and what takes the place of its first group.
MUTATIONS = (
    (r"arith\.(addf) %", "subf"), (r"arith\.(subf) %", "addf"), (r"arith\.(mulf) %", "addf"), (r"arith\.(divf) %", "mulf"),
    (r"arith\.(maximumf) %", "minimumf"), (r"math\.(exp) %", "exp2"), (r"math\.(rsqrt) %", "sqrt"), (r"math\.(tanh) %", "sin"),
    (r"cmpf (ogt),", "olt"), (r"arith\.constant (-?\d\.\d+e[+-]\d+) : f32", "3.000000e+00"),
    (r"scf\.for %\w+ = %(c0\b)", "c1"), (r"memref\.load %\w+\[%\w+, %(\w+)\]", "c0"),
    (r"llvm\.(fadd) %", "fsub"), (r"llvm\.(fsub) %", "fadd"), (r"llvm\.(fmul) %", "fadd"), (r"llvm\.(fdiv) %", "fmul"),
    (r"llvm\.mlir\.constant\((-?\d\.\d+e[+-]\d+) : f32", "3.000000e+00"),
    (r'llvm\.icmp "(slt)"', "sle"), (r"@(expf)\(%", "tanhf"), (r"@(tanhf)\(%", "expf"),
)  # fmt: skip
TOOL = """\
import re
from mlir_matrix.actions.api import Action


def run(action: Action) -> None:
    with open(action.inputs["ir"], encoding="utf-8") as file:
        text = file.read()
    site = action.params["parameters"]["site"]
    if site >= 0:
        found = list(re.finditer({pattern!r}, text))[site]
        text = text[: found.start(1)] + {new!r} + text[found.end(1) :]
    with open(action.outputs["out"], "w", encoding="utf-8") as file:
        file.write(text)
"""
STEP = """\
description: Changes what {step} gives, in one release.
environment: mlir
accepts: [{kind}]
gives: {kind}
parameters:
  site: {{description: which place; -1 for none, default: -1}}
variants:
  - carries: {{llvm: tm-tensor}}
    parameters: {{site: {site}}}
  - when: {{llvm: ">=1"}}
"""


@dataclass(frozen=True)
class Fault:
    """A place in the IR of a workload after a step."""

    workload: str
    step: str
    kind: str
    pattern: str
    new: str
    site: int

    def write(self, folder: Path) -> Path:
        """Write a catalog whose pipeline ``planted`` has the fault in a step of its own."""
        step = folder / "recipes" / "steps" / "planted"
        step.mkdir(parents=True)
        (step / "tool.py").write_text(TOOL.format(pattern=self.pattern, new=self.new))
        (step / "step.yaml").write_text(STEP.format(step=self.step, kind=self.kind, site=self.site))
        names = list(STEPS)
        names.insert(STEPS.index(self.step) + 1, "planted")
        pipelines = folder / "recipes" / "pipelines"
        pipelines.mkdir()
        original = Path("recipes/pipelines/linalg-loops.yaml").read_text()
        steps = "steps:\n" + "".join(f"  - {name}\n" for name in names)
        (pipelines / "planted.yaml").write_text(re.sub(r"steps:\n(?:  - .*\n)+", steps, original))
        return folder


def faults(generator: random.Random) -> list[Fault]:
    """Return all faults of the workloads, in random order, the same each time."""
    session, found = open_session(), list[Fault]()
    read = ActionCache(session.home.actions).read_blob
    kinds = {step: session.catalog.steps[step].document.kind_from("") for step in STEPS}
    for workload in WORKLOADS:
        levels, _, _ = find_levels(session, f"{PIPELINE}/{workload}", LIMITS, after=None, before=None, every=True)
        for level in levels:
            text = read(level.digest).decode() if level.level in STEPS else ""
            for pattern, new in MUTATIONS:
                for site, match in enumerate(re.finditer(pattern, text)):
                    if match[1] != new:
                        found.append(Fault(workload, level.level, kinds[level.level], pattern, new, site))
    generator.shuffle(found)
    return found


def find(fault: Fault, folder: Path) -> Localized | None:
    """Return what is found out about a fault; None if the test passes or the IR is invalid."""
    session = open_session(catalogs=[fault.write(folder)])
    (test,) = select_tests(session, [f"mlir/planted/x86_64/{fault.workload}"])
    try:
        found = localize(session, test, LIMITS, fetching=False)
    except UsageError:
        return None
    return found if found.result.outcome == "mismatch" else None


def _certainty(found: Localized) -> str:
    if found.conclusion.certain:
        return "certain"
    return "probable" if len(found.suspects) == 1 else "several"


def _rightness(found: Localized) -> str:
    if found.suspects == ["planted"]:
        return "right"
    return "among" if "planted" in found.suspects else "wrong"


def main() -> int:
    """Print how many steps are named; exit code 1 where too few are, or a wrong one for certain."""
    counts, seconds = Counter[str](), list[float]()
    by_step = Counter[str]()
    for fault in faults(random.Random(7)):
        # As many of each step.
        if by_step[fault.step] == FAULTS // len(STEPS):
            continue
        with tempfile.TemporaryDirectory() as name:
            began = time.monotonic()
            found = find(fault, Path(name))
        if found is None:
            continue
        by_step[fault.step] += 1
        seconds.append(time.monotonic() - began)
        certain, right = _certainty(found), _rightness(found)
        counts[f"{certain} {right}"] += 1
        if right != "right":
            print(f"     {certain} {right}: {fault} -> {found.suspects}")
    total = sum(counts.values())
    print(f"     {total} faults, {dict(by_step)}: {dict(counts)}; the longest took {max(seconds):.1f} s")
    named = counts["certain right"] + counts["probable right"]
    wrong = counts["certain wrong"] + counts["certain among"]
    holds = [
        verdict("the step is named", named / total, 0.95, at_most=False),
        verdict("wrong where it is certain", wrong, 0, at_most=True),
    ]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
