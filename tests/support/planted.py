"""Write a catalog of longer programs at the level linalg, and of compilers that make one mistake wherever they can.

A program is one of ``support.pairs`` with more operations, as PyTorch or JAX gives it in linalg, so that no framework is needed
again. A compiler is the pipeline ``planted-MISTAKE``: ``linalg-loops`` with a step after the loops that makes a mistake of
``matrix golden audit`` at all its sites, in the release with bindings alone. In other releases, the step changes nothing.
"""

from __future__ import annotations

import dataclasses
import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.actions.mutation.ir_mutations import MISTAKES
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.ir.levels import between, read_levels
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.levels import levels_of
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import open_session, plan_tests, select_tests
from support import pairs

GOOD = "linalg-loops"
#: Operations at the level linalg, those in regions included, without functions and what ends a block.
SIZE = range(40, 61)
#: Operations as frameworks have them, so that there are about as many.
_LENGTHS = (6, 12)
#: How often an operation may be in a program.
_REPEATED = 3
#: They become operations of torch-mlir's dialect tm_tensor, or do not become linalg at all.
_OTHER_DIALECTS = frozenset(("sort", "topk", "cumsum", "scatter", "index_add", "update", "gather"))
_OPERATIONS = [each for each in pairs.OPERATIONS if each.name not in _OTHER_DIALECTS]
#: Frameworks, and the step whose output is a program.
_IMPORTS = {"pytorch": "torch-to-linalg", "jax": "stablehlo-to-linalg"}
#: In this level, operations give results, unless they end a block.
_OPERATION = re.compile(r"^ +%.* = ", re.MULTILINE)
#: Mistakes after which the kernel reads memory that it has not written, which the driver reports before any number is compared;
#: and one in sums of integers, of which programs have none.
NO_NUMBERS = frozenset(("skip-remainder", "stale-buffer", "narrow-accumulator-int"))
_TOOL = """\
from pathlib import Path

from mlir_matrix.actions.api import Action, bindings, read_text
from mlir_matrix.actions.mutation.ir_mutations import MISTAKES, Editor


def run(action: Action) -> None:
    given = action.params["parameters"]
    if given["mistake"] == "none":
        text = read_text(action.inputs["ir"], "the IR")
    else:
        text = mistaken(action.inputs["ir"], given["mistake"], given["first"], given["each"])
    Path(action.outputs["out"]).write_text(text)


def mistaken(path: str, mistake: str, first: int, each: int) -> str:
    with bindings.load("").session() as session:
        module = session.parse(path)
        sites = list(MISTAKES[mistake](Editor(ir=session.bindings.ir), module.operation))
        for change in sites[first::each]:
            change()
        return session.text(module)
"""
_STEP = """\
description: Makes the mistake {mistake} in one release.
environment: mlir
accepts: [loops]
gives: loops
parameters:
  mistake: {{description: A mistake of matrix golden audit., default: none}}
  first: {{description: Where it is made first., default: {first}}}
  each: {{description: It is made at each of so many places., default: {each}}}
variants:
  - carries: {{llvm: tm-tensor}}
    parameters: {{mistake: {mistake}}}
  - when: {{llvm: ">=1"}}
"""


@dataclass(frozen=True)
class Planted:
    """A program, and a mistake that the compiler makes."""

    program: str
    mistake: str

    @property
    def test(self) -> str:
        """The test that fails if the mistake matters."""
        return f"mlir/planted-{self.mistake}/x86_64/{self.program}"

    @property
    def good(self) -> str:
        """The same program through the compiler without the mistake."""
        return f"mlir/{GOOD}/x86_64/{self.program}"


def write_compilers(root: Path) -> None:
    """Write a step and a pipeline for each mistake, wherever it can be made."""
    for mistake in MISTAKES:
        write_compiler(root, mistake)


def write_compiler(root: Path, mistake: str, first: int = 0, each: int = 1) -> str:
    """Write a step and a pipeline for a mistake, made at each of so many places. Return the name of the pipeline."""
    name = f"planted-{mistake}" if each == 1 else f"planted-{mistake}-{first}-{each}"
    original = Path("recipes/pipelines", f"{GOOD}.yaml").read_text()
    step = root / "recipes/steps" / name
    step.mkdir(parents=True)
    (step / "tool.py").write_text(_TOOL)
    (step / "step.yaml").write_text(_STEP.format(mistake=mistake, first=first, each=each))
    pipeline = root / f"recipes/pipelines/{name}.yaml"
    pipeline.parent.mkdir(parents=True, exist_ok=True)
    pipeline.write_text(original.replace("  - linalg-to-loops\n", f"  - linalg-to-loops\n  - {name}\n"))
    return name


def write_programs(root: Path, count: int, seed: int) -> list[str]:
    """Write programs of ``SIZE`` operations as workloads of a catalog, and return their names."""
    draw = random.Random(seed)
    names: list[str] = []
    for programs in _batches(count, seed):
        with tempfile.TemporaryDirectory() as folder:
            sources = Path(folder)
            pairs.write(sources, programs)
            for name, text in _lowered(sources, {each.name: draw.choice(list(_IMPORTS)) for each in programs}).items():
                if len(names) < count and len(_OPERATION.findall(text)) in SIZE and "tm_tensor" not in text:
                    _move(sources, root, name, text)
                    names.append(name)
        if len(names) == count:
            break
    return names


def _batches(size: int, seed: int) -> Iterator[list[pairs.Program]]:
    """Yield varied programs without end, so many at a time."""
    batch: list[pairs.Program] = []
    for number, program in enumerate(pairs.compose(100 * size, seed, _LENGTHS, _OPERATIONS)):
        ((_, repeated),) = Counter(program.name.split("-")[1:]).most_common(1)
        if repeated <= _REPEATED:
            # With all its operations, the name would be too long.
            batch.append(dataclasses.replace(program, name=f"p{number:03}"))
        if len(batch) == size:
            yield batch
            batch = []


def _lowered(catalog: Path, frameworks: Mapping[str, str]) -> dict[str, str]:
    """Return programs of a catalog in linalg, each by the framework that is given, where it can express it."""
    session = open_session(catalogs=[catalog])
    limits = Limits(jobs=2)
    wanted = [f"{framework}/{GOOD}/x86_64/{program}" for program, framework in frameworks.items()]
    tests = [test for test in select_tests(session, wanted) if test.selected]
    plan = plan_tests(session, tests)
    levels = {
        test.workload: between(levels_of(plan, test.id), after=_IMPORTS[test.framework], before=None) for test in tests
    }
    # All at once, on both cores; each is then read from the cache.
    needed = {name for level in levels.values() for name in plan.graph.needed_by(level.action.id)}
    run_graph(
        session, Graph({name: plan.graph.actions[name] for name in plan.graph.actions if name in needed}), limits=limits
    )
    read = ActionCache(session.home.actions).read_blob
    texts = {}
    for program, level in levels.items():
        files, _ = read_levels(session, plan.graph, [level], limits)
        if files:
            texts[program] = read(files[0].digest).decode()
    return texts


def _move(sources: Path, root: Path, program: str, text: str) -> None:
    """Move a workload to another catalog, with IR in place of what frameworks read."""
    folder = Path("matrix/workloads", program)
    (sources / folder / "linalg.mlir").write_text(text)
    for each in ("pytorch.py", "jax.py"):
        (sources / folder / each).unlink()
    document = (sources / folder / "workload.yaml").read_text()
    (sources / folder / "workload.yaml").write_text(re.sub(r',\s*"absent": \{[^}]*\}', "", document))
    for each in (folder, Path("golden", program)):
        (root / each).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(sources / each, root / each)


def planted(programs: Sequence[str], seed: int) -> list[Planted]:
    """Return all pairs of a program and a mistake that can give wrong numbers, in random order."""
    found = [Planted(program, mistake) for program in programs for mistake in MISTAKES if mistake not in NO_NUMBERS]
    random.Random(seed).shuffle(found)
    return found
