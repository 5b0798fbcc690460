"""A catalog that joins a good one, spoilt in all ways: one sentence with the place, and nothing written."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from mlir_matrix.base.text import harmless
from support.downstream import WORKLOAD, Downstream
from support.downstream import tree as look
from support.right_catalog import Tree
from support.spoiling import Spoil, folder, gone, link, pipe, put

GOOD = "def workload(x):\n    return x * 2\n"
SUITE = "description: Mine.\nblocks:\n  - product: {framework: [pytorch], pipeline: [plain], workload: [mine]}\n"
STEP = "description: A step.\nenvironment: torch\naccepts: [linalg]\ngives: tosa\npasses: canonicalize\n"
WORK = "matrix/workloads/mine/workload.yaml"
MINE = "matrix/suites/mine.yaml"


def changed(before: str, after: str) -> Spoil:
    assert before in WORKLOAD
    return put(WORK, WORKLOAD.replace(before, after))


#: What is done to a good catalog, and what must be said then.
CASES: dict[str, tuple[Spoil, str]] = {
    # Not YAML, or not the YAML that we read
    "broken": (put(WORK, "inputs: {x: [1, 2\noutputs: 3\n"), rf"{WORK}:\d+:\d+: broken YAML"),
    "tab": (put(WORK, "inputs:\n\tx: 1\n"), rf"{WORK}:2:\d+: "),
    "empty": (put(WORK, b""), rf"{WORK}:1:1: the file is empty"),
    "only_comment": (put(MINE, "# nothing\n"), rf"{MINE}:1:1: the file is empty"),
    "list": (put(WORK, "- 1\n"), rf"{WORK}:1:1: expected keys"),
    "text": (put(WORK, "hello\n"), rf"{WORK}:1:1: expected keys"),
    "latin": (put(WORK, WORKLOAD.encode() + b"# caf\xe9\n"), rf"{WORK}:6:6: is not UTF-8"),
    "utf16": (put(WORK, WORKLOAD.encode("utf-16")), rf"{WORK}:1:1: is not UTF-8"),
    "null_byte": (put(WORK, WORKLOAD.encode() + b"\0"), rf"{WORK}:\d+:\d+: holds the control character U\+0000"),
    "control": (put(WORK, WORKLOAD + "# \x1b[2J\n"), rf"{WORK}:\d+:\d+: holds the control character U\+001B"),
    "bidi": (put(WORK, WORKLOAD + "# \u202e\n"), rf"{WORK}:\d+:\d+: holds the control character U\+202E"),
    "laughs": (
        put(WORK, "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"), rf"{WORK}:1:4: .*anchors are refused",
    ),
    "merge": (put(WORK, "a: 1\n<<: {b: 2}\n"), rf"{WORK}:2:1: merge keys"),
    "tag": (put(WORK, "a: !!python/object/apply:os.system [id]\n"), rf"{WORK}:1:4: .*tags are refused"),
    "deep": (put(WORK, "a: " + "[" * 100_000), rf"{WORK}:1:\d+: nested more than 32 levels deep"),
    "deep_flow": (put(WORK, "a: " + "{a: " * 50_000), rf"{WORK}:1:\d+: nested more than 32 levels deep"),
    "twice": (put(WORK, WORKLOAD + "description: Again.\n"), rf"{WORK}:6:1: the key 'description' is a duplicate"),
    "documents": (put(WORK, WORKLOAD + "---\na: 1\n"), rf"{WORK}:6:1: a second document"),
    "huge": (put(WORK, b"# " + b"x" * (2 << 20)), rf"{WORK}:1:1048577: is larger than 1 MiB, .*; split or shorten the file"),
    "long_key": (put(WORK, WORKLOAD + "k" * 5000 + ": 1\n"), rf"{WORK}:6:\d+: broken YAML"),
    # Not what a file of this sort says
    "unknown_key": (changed("inputs:", "imputs:"), rf"{WORK}:2:1: .*imputs.*inputs"),
    "type": (changed("[4]", "four"), rf"{WORK}:3:\d+: "),
    "boolean": (changed("description: Somebody's program.", "description: true"), rf"{WORK}:1:1: "),
    "number": (changed("f32, formula", "32, formula"), rf"{WORK}:3:\d+: "),
    "dtype": (changed("dtype: f32, formula", "dtype: f23, formula"), rf"{WORK}:3:\d+: .*f32"),
    "dimension": (changed("[4], dtype: f32, formula", "[N], dtype: f32, formula"), rf"{WORK}:3:\d+: .*N"),
    "negative": (changed("[4], dtype: f32, formula", "[-4], dtype: f32, formula"), rf"{WORK}:3:\d+: "),
    "formula": (changed("iota()", "'__import__(\"os\").system(\"id\")'"), rf"{WORK}:3:\d+: "),
    "formula_power": (changed("iota()", "9**9**9**9**9"), rf"{WORK}:3:\d+: "),
    "formula_deep": (changed("iota()", "'" + "(" * 5000 + "1" + ")" * 5000 + "'"), rf"{WORK}:3:\d+: "),
    "no_outputs": (put(WORK, WORKLOAD.split("outputs")[0]), rf"{WORK}:1:1: .*outputs"),
    "input_name": (changed("  x:", "  ../x:"), rf"{WORK}:3:3: .*\.\./x"),
    "input_shell": (changed("  x:", "  $(id):"), rf"{WORK}:3:3: "),
    # Names
    "unknown_framework": (put(MINE, SUITE.replace("pytorch", "pytroch")), rf"{MINE}:3:\d+: .*pytroch.*pytorch"),
    "unknown_pipeline": (put(MINE, SUITE.replace("plain", "plane")), rf"{MINE}:3:\d+: .*plain"),
    "unknown_workload": (put(MINE, SUITE.replace("mine]", "mime]")), rf"{MINE}:3:\d+: .*mine"),
    "exclude_nothing": (
        put(MINE, SUITE + "exclude:\n  - {tests: [pytorch/*/x86_64/nobody], reason: No.}\n"), rf"{MINE}:5:\d+: ",
    ),
    "duplicate": (put("matrix/workloads/mlp/workload.yaml", WORKLOAD), "mlp.*(two workloads|missing)"),
    "case": (put("recipes/kinds/Linalg.yaml", "description: X.\nfile: x.mlir\n"), "differs only in case"),
    "space": (put("matrix/workloads/my own/workload.yaml", WORKLOAD), "my own"),
    "dots": (put("matrix/workloads/..a/workload.yaml", WORKLOAD), r"\.\.a"),
    "dash": (put("matrix/workloads/-rf/workload.yaml", WORKLOAD), "-rf"),
    "shell": (put("matrix/workloads/$(id)/workload.yaml", WORKLOAD), r"\$\(id\)"),
    "quotes": (put("matrix/workloads/a';id;'/workload.yaml", WORKLOAD), "a';id;'"),
    "html": (put("matrix/suites/<script>.yaml", SUITE), "<script>"),
    "newline": (put("matrix/workloads/a\nb/workload.yaml", WORKLOAD), r"a\\nb"),
    "escape": (put("matrix/workloads/a\x1b[2J/workload.yaml", WORKLOAD), r"a\\x1b"),
    "surrogate": (lambda catalog: os.makedirs(os.fsencode(catalog.root) + b"/matrix/workloads/\xff"), "workloads/"),
    "percent": (put("matrix/workloads/a%2f..%2fb/workload.yaml", WORKLOAD), "a%2f"),
    "unicode": (put("matrix/workloads/mіne/workload.yaml", WORKLOAD), "m.*ne"),
    # Pipelines
    "unconnected": (
        put("recipes/pipelines/bad.yaml", "description: X.\nentry: {torch: []}\nsteps: [object]\n"),
        r"recipes/pipelines/bad\.yaml:\d+:\d+: .*object",
    ),
    "cyclic": (
        put("recipes/pipelines/bad.yaml", "description: X.\nentry: {linalg: []}\nsteps: [bad, tile]\n"),
        r"recipes/pipelines/bad\.yaml:3:\d+: .*bad",
    ),
    "unknown_step": (
        put("recipes/pipelines/bad.yaml", "description: X.\nentry: {linalg: []}\nsteps: [tiel]\n"),
        r"recipes/pipelines/bad\.yaml:3:\d+: .*tile",
    ),
    "unknown_parameter": (
        put(
            "recipes/pipelines/bad.yaml",
            "description: X.\nentry: {linalg: []}\nsteps: [tile, "
            "{step: object, with: {optlevel: 2}}]\n",
        ),
        r"recipes/pipelines/bad\.yaml:3:\d+: .*opt-level",
    ),
    "step_file": (
        put("recipes/steps/mine/step.yaml", STEP + "schedule: ../../../../etc/passwd\n"), r"step\.yaml:6:1: ",
    ),
    "step_tool": (put("recipes/steps/mine/step.yaml", STEP + "tool: os\n"), r"step\.yaml:6:1: "),
    "step_environment": (
        put("recipes/steps/mine/step.yaml", STEP.replace("torch", "toch")), r"step\.yaml:2:1: .*torch",
    ),
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
    "tolerance_vacuous": (
        put("golden/mine/tolerances.yaml", "layers:\n  - {atol: eps(dtype) ** -40, rtol: 0, rationale: X.}\n"),
        r"golden/mine/tolerances\.yaml:2:6: 'atol' is .* for the f32 output mine/y: all zeros are within it",
    ),
    "tolerance_evil": (
        put("golden/tolerances.yaml", "layers:\n  - {atol: '().__class__', rtol: 0, rationale: X.}\n"),
        r"golden/tolerances\.yaml:2:\d+: ",
    ),
    # What is no file, or not one of the catalog
    "link_out": (link("matrix/workloads/mine/pytorch.py", "/etc/passwd"), "mine/pytorch.py: is a symbolic link that leaves"),
    "link_out_folder": (link("matrix/workloads/other", "/etc"), "other: is a symbolic link that leaves"),
    "link_up": (link("matrix/workloads/other", "../../../.."), "other: is a symbolic link that leaves"),
    "link_room": (link("recipes/steps", "/usr"), "recipes/steps: is a symbolic link that leaves"),
    "link_golden": (link("golden/mine/y.npy", "/dev/zero"), "golden/mine/y.npy: is a symbolic link that leaves"),
    "link_nowhere": (link("matrix/suites/x.yaml", "nowhere"), "x.yaml: is a broken symbolic link"),
    "link_itself": (link("matrix/suites/x.yaml", "x.yaml"), "x.yaml: is a broken symbolic link"),
    "link_device": (link("matrix/workloads/mine/pytorch.py", "/dev/stdin"), "mine/pytorch.py: "),
    "folder_for_file": (folder(WORK), r"workload\.yaml"),
    "folder_for_source": (folder("matrix/workloads/mine/pytorch.py"), "mine/pytorch.py: "),
    "folder_for_golden": (folder("golden/mine/y.npy"), "golden/mine/y.npy"),
    "folder_for_suite": (folder(MINE), "is a folder, but a suite is a file"),
    "pipe": (pipe(WORK), "workload.yaml: is neither a file nor a folder"),
    "pipe_source": (pipe("matrix/workloads/mine/pytorch.py"), "pytorch.py: is neither a file nor a folder"),
    "pipe_golden": (pipe("golden/mine/y.npy"), "y.npy: is neither a file nor a folder"),
    "file_for_folder": (put("matrix/workloads/other", "x"), "is a file, but a workload is a folder"),
    "file_for_room": (put("recipes/pipelines", "x"), "recipes/pipelines"),
    "no_source": (gone("matrix/workloads/mine/reference.py"), "reference.py"),
    "no_yaml": (gone(WORK), "workload.yaml is missing"),
    "misspelt_room": (put("matrix/workload/x.yaml", "a: 1\n"), "workload.*workloads"),
    "wrong_ending": (put("matrix/suites/mine.yml", SUITE), r"mine\.yml: is not read.*mine\.yaml"),
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
