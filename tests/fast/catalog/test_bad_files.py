"""A catalog that joins a good one, spoilt in ways that no table of sentences has: one sentence with the place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mlir_matrix.base.text import harmless
from support.downstream import WORKLOAD, Downstream
from support.downstream import tree as look
from support.right_catalog import Tree
from support.spoiling import GOOD, MINE, WORK, Spoil, changed, folder, link, pipe, put

SUITE = "description: Mine.\nblocks:\n  - product: {framework: [pytorch], pipeline: [plain], workload: [mine]}\n"
STEP = "description: A step.\nenvironment: torch\naccepts: [linalg]\ngives: tosa\npasses: canonicalize\n"

#: What is done to a good catalog, and what must be said then.
CASES: dict[str, tuple[Spoil, str]] = {
    "long_key": (put(WORK, WORKLOAD + "k" * 5000 + ": 1\n"), rf"{WORK}:6:\d+: broken YAML"),
    "boolean": (changed("description: Somebody's program.", "description: true"), rf"{WORK}:1:1: "),
    "number": (changed("f32, formula", "32, formula"), rf"{WORK}:3:\d+: "),
    "negative": (changed("[4], dtype: f32, formula", "[-4], dtype: f32, formula"), rf"{WORK}:3:\d+: "),
    "formula_deep": (changed("iota()", "'" + "(" * 5000 + "1" + ")" * 5000 + "'"), rf"{WORK}:3:\d+: "),
    "no_outputs": (put(WORK, WORKLOAD.split("outputs")[0]), rf"{WORK}:1:1: .*outputs"),
    "input_name": (changed("  x:", "  ../x:"), rf"{WORK}:3:3: .*\.\./x"),
    "input_shell": (changed("  x:", "  $(id):"), rf"{WORK}:3:3: "),
    "step_file": (
        put("recipes/steps/mine/step.yaml", STEP + "schedule: ../../../../etc/passwd\n"), r"step\.yaml:6:1: ",
    ),
    "step_tool": (put("recipes/steps/mine/step.yaml", STEP + "tool: os\n"), r"step\.yaml:6:1: "),
    "framework_tool": (
        put(
            "matrix/frameworks/mine/framework.yaml",
            "description: X.\ntool: subprocess\nenvironment: torch\nemits: {stablehlo: pytorch.py}\n",
        ),
        r"frameworks/mine/framework\.yaml:2:1: unknown key 'tool'",
    ),
    "release": (
        put("toolchains/components/mine.yaml", "description: X.\nrelease: 1.0; rm -rf /\n"), r"components/mine\.yaml:2:1: ",
    ),
    "tolerance": (
        put("golden/mine/tolerances.yaml", "layers:\n  - {atol: 1e-3 +, rtol: 0, rationale: X.}\n"),
        r"golden/mine/tolerances\.yaml:2:\d+: ",
    ),
    "tolerance_evil": (
        put("golden/tolerances.yaml", "layers:\n  - {atol: '().__class__', rtol: 0, rationale: X.}\n"),
        r"golden/tolerances\.yaml:2:\d+: ",
    ),
    "link_out": (link("matrix/workloads/mine/pytorch.py", "/etc/passwd"), "mine/pytorch.py: is a symbolic link that leaves"),
    "link_device": (link("matrix/workloads/mine/pytorch.py", "/dev/stdin"), "mine/pytorch.py: "),
    "folder_for_file": (folder(WORK), r"workload\.yaml"),
    "folder_for_source": (folder("matrix/workloads/mine/pytorch.py"), "mine/pytorch.py: "),
    "folder_for_golden": (folder("golden/mine/y.npy"), "golden/mine/y.npy"),
    "pipe_source": (pipe("matrix/workloads/mine/pytorch.py"), "pytorch.py: is neither a file nor a folder"),
    "pipe_golden": (pipe("golden/mine/y.npy"), "y.npy: is neither a file nor a folder"),
    "file_for_room": (put("recipes/pipelines", "x"), "recipes/pipelines"),
}  # fmt: skip


@pytest.fixture
def catalog(tmp_path: Path) -> Downstream:
    """A good catalog."""
    made = Downstream(tmp_path / "mine")
    made.workload("mine", pytorch=GOOD)
    made.write(MINE, SUITE)
    return made


def test_a_good_catalog_is_taken(tree: Tree, catalog: Downstream) -> None:
    """All that follows is about the spoiling, not about this."""
    assert "mine" in tree.load(catalog.root).workloads


@pytest.mark.parametrize("case", CASES)
def test_bad_files(case: str, tree: Tree, catalog: Downstream) -> None:
    spoil, message = CASES[case]
    spoil(catalog)
    before = look(catalog.root)
    text = "\n".join(tree.errors(catalog.root))
    assert re.search(message, text, re.DOTALL), text
    assert len(text) < 20_000
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", harmless(text)), text
    assert look(catalog.root) == before
