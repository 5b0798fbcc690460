"""Files and command lines that are wrong: exit 2, a sentence with the place, and nothing written, whatever they are."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.downstream import WORKLOAD, Downstream, tree
from support.workspace import REPOSITORY, Finished, Workspace, new_home

GOOD = "def workload(x):\n    return x * 2\n"
SUITE = "description: Mine.\nblocks:\n  - product: {framework: [jax], pipeline: [linalg-loops], workload: [mine]}\n"
STEP = "description: A step.\nenvironment: mlir\naccepts: [linalg]\ngives: loops\npasses: canonicalize\n"
WORK = "matrix/workloads/mine/workload.yaml"
MINE = "matrix/suites/mine.yaml"
Spoil = Callable[[Downstream], object]


def put(path: str, content: str | bytes) -> Spoil:
    return lambda catalog: catalog.write(path, content)


def link(path: str, target: str) -> Spoil:
    def make(catalog: Downstream) -> None:
        place = catalog.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():
            place.unlink()
        place.symlink_to(target)

    return make


def folder(path: str) -> Spoil:
    def make(catalog: Downstream) -> None:
        (catalog.root / path).unlink(missing_ok=True)
        (catalog.root / path).mkdir(parents=True)

    return make


def pipe(path: str) -> Spoil:
    def make(catalog: Downstream) -> None:
        place = catalog.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        os.mkfifo(place)

    return make


def gone(path: str) -> Spoil:
    return lambda catalog: (catalog.root / path).unlink()


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
    "unknown_framework": (put(MINE, SUITE.replace("jax", "jaxx")), rf"{MINE}:3:\d+: .*jaxx.*jax"),
    "unknown_pipeline": (put(MINE, SUITE.replace("linalg-loops", "linalg-lops")), rf"{MINE}:3:\d+: .*linalg-loops"),
    "unknown_workload": (put(MINE, SUITE.replace("mine]", "mime]")), rf"{MINE}:3:\d+: .*mine"),
    "exclude_nothing": (
        put(MINE, SUITE + "exclude:\n  - {tests: [jax/*/x86_64/nobody], reason: No.}\n"), rf"{MINE}:5:\d+: ",
    ),
    "duplicate": (put("matrix/workloads/matmul/workload.yaml", WORKLOAD), "matmul.*(two workloads|missing)"),
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
        put("recipes/pipelines/bad.yaml", "description: X.\nentry: {linalg: []}\nsteps: [object]\n"),
        r"recipes/pipelines/bad\.yaml:\d+:\d+: .*object",
    ),
    "cyclic": (
        put("recipes/pipelines/bad.yaml", "description: X.\nentry: {linalg: []}\nsteps: [bad, linalg-fuse]\n"),
        r"recipes/pipelines/bad\.yaml:3:\d+: .*bad",
    ),
    "unknown_step": (
        put("recipes/pipelines/bad.yaml", "description: X.\nentry: {linalg: []}\nsteps: [linalg-fues]\n"),
        r"recipes/pipelines/bad\.yaml:3:\d+: .*linalg-fuse",
    ),
    "unknown_parameter": (
        put(
            "recipes/pipelines/bad.yaml",
            "description: X.\nentry: {linalg: []}\nsteps: [bufferize, linalg-to-loops, loops-to-llvm, "
            "{step: object, with: {optlevel: 2}}]\n",
        ),
        r"recipes/pipelines/bad\.yaml:3:\d+: .*opt-level",
    ),
    "step_file": (
        put("recipes/steps/mine/step.yaml", STEP + "schedule: ../../../../etc/passwd\n"), r"step\.yaml:6:1: ",
    ),
    "step_tool": (put("recipes/steps/mine/step.yaml", STEP + "tool: os\n"), r"step\.yaml:6:1: "),
    "step_environment": (
        put("recipes/steps/mine/step.yaml", STEP.replace("mlir", "mlri")), r"step\.yaml:2:1: .*mlir",
    ),
    "framework_tool": (
        put(
            "matrix/frameworks/mine/framework.yaml",
            "description: X.\ntool: subprocess\nenvironment: jax\nemits: {stablehlo: jax.py}\n",
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
    "link_out": (link("matrix/workloads/mine/jax.py", "/etc/passwd"), "mine/jax.py: is a symbolic link that leaves"),
    "link_out_folder": (link("matrix/workloads/other", "/etc"), "other: is a symbolic link that leaves"),
    "link_up": (link("matrix/workloads/other", "../../../.."), "other: is a symbolic link that leaves"),
    "link_room": (link("recipes/steps", "/usr"), "recipes/steps: is a symbolic link that leaves"),
    "link_golden": (link("golden/mine/y.npy", "/dev/zero"), "golden/mine/y.npy: is a symbolic link that leaves"),
    "link_nowhere": (link("matrix/suites/x.yaml", "nowhere"), "x.yaml: is a broken symbolic link"),
    "link_itself": (link("matrix/suites/x.yaml", "x.yaml"), "x.yaml: is a broken symbolic link"),
    "link_device": (link("matrix/workloads/mine/jax.py", "/dev/stdin"), "mine/jax.py: "),
    "folder_for_file": (folder(WORK), r"workload\.yaml"),
    "folder_for_source": (folder("matrix/workloads/mine/jax.py"), "mine/jax.py: "),
    "folder_for_golden": (folder("golden/mine/y.npy"), "golden/mine/y.npy"),
    "folder_for_suite": (folder(MINE), "is a folder, but a suite is a file"),
    "pipe": (pipe(WORK), "workload.yaml: is neither a file nor a folder"),
    "pipe_source": (pipe("matrix/workloads/mine/jax.py"), "jax.py: is neither a file nor a folder"),
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
    made = Downstream(tmp_path / "catalog")
    made.workload("mine", jax=GOOD)
    made.write(MINE, SUITE)
    return made


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A home in which nothing has been done yet."""
    return Workspace(new_home(tmp_path / "home"))


def refused(done: Finished, message: str) -> None:
    assert done.code == 2, (done.code, done.stdout, done.stderr)
    assert re.search(message, done.stderr, re.DOTALL), done.stderr
    assert done.stdout == ""
    assert len(done.stderr) < 20_000
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", done.stderr), done.stderr


def test_a_good_catalog_is_taken(catalog: Downstream, workspace: Workspace) -> None:
    """All that follows is about the spoiling, not about this."""
    done = workspace("plan", "mine", "--catalog", catalog.root, "--format", "ids")
    assert done.code == 0
    assert "jax/linalg-loops/x86_64/mine" in done.stdout.splitlines()
    assert all(line.startswith("jax/linalg-loops/") and line.endswith("/mine") for line in done.stdout.splitlines())


def test_what_is_over_a_limit_stops_nothing_else(catalog: Downstream, workspace: Workspace) -> None:
    put("matrix/workloads/huge/workload.yaml", WORKLOAD.replace("[4]", "[99999999999]"))(catalog)
    put("matrix/workloads/huge/reference.py", "def reference(x):\n    return x\n")(catalog)
    put(f"recipes/pipelines/{'n' * 65}.yaml", "description: d\n")(catalog)
    done = workspace("plan", "jax/linalg-loops/x86_64/{mine,huge}", "--catalog", catalog.root)
    assert done.code == 0, done.stderr
    reasons = [
        r"'n+' is too long for a name: 65 characters, 64 at most",
        r"huge/workload\.yaml:\d+:\d+: 99999999999 elements",
    ]
    for reason in reasons:
        assert re.search(f"{reason}.*; it is left out", done.stderr)
    assert re.search(rf"x86_64/huge +unsupported .*{reasons[1]}", done.stdout)
    assert re.search("x86_64/mine +run ", done.stdout)
    refused(workspace("run", "jax/linalg-loops/x86_64/huge", "--catalog", catalog.root), reasons[1])


@pytest.mark.parametrize("case", CASES)
def test_bad_files(case: str, catalog: Downstream, workspace: Workspace) -> None:
    spoil, message = CASES[case]
    spoil(catalog)
    before = tree(catalog.root), tree(workspace.home)
    refused(workspace("run", "mine", "--catalog", catalog.root), message)
    assert (tree(catalog.root), tree(workspace.home)) == before


CATALOGS = {
    "nowhere": ("--catalog {tmp}/nowhere: there is no such folder"),
    "{tmp}/file": "--catalog {tmp}/file: there is no such folder",
    "{tmp}/empty": "{tmp}/empty: holds no catalog",
    "{repository}": "given twice",
    "{repository}/recipes": "holds no catalog",
    "/": "holds no catalog",
    "/proc/self/fd/0": "there is no such folder",
}


@pytest.mark.parametrize("given", CATALOGS)
def test_bad_catalog_folders(given: str, tmp_path: Path, workspace: Workspace) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    names = {"tmp": str(tmp_path), "repository": str(REPOSITORY)}
    place = given.format(**names) if given.startswith(("{", "/")) else str(tmp_path / given)
    for verb in (("run",), ("plan",), ("explain", "jax/linalg-loops/x86_64/mlp"), ("golden", "update")):
        refused(workspace(*verb, "--catalog", place), re.escape(CATALOGS[given].format(**names)))


def test_a_catalog_given_twice(catalog: Downstream, workspace: Workspace) -> None:
    """Also by another name."""
    other = catalog.root.with_name("other")
    other.symlink_to(catalog.root)
    for second in (catalog.root, f"{catalog.root}/../catalog", other):
        refused(workspace("plan", "mine", "--catalog", catalog.root, "--catalog", second), "given twice")


def test_two_catalogs_with_one_name(catalog: Downstream, workspace: Workspace) -> None:
    other = catalog.root.with_name("other")
    shutil.copytree(catalog.root, other)
    refused(
        workspace("plan", "mine", "--catalog", catalog.root, "--catalog", other), "'mine' is the name of two workloads"
    )


@pytest.mark.parametrize("verb", ["plan", "run", "explain"])
@pytest.mark.parametrize(
    "name",
    ["nobody", "jax/nothing/x86_64/mlp", "../../etc/passwd", "a b", "$(id)", "<b>", "a\nb", "\x1b[2J", "", "/", "///", "*" * 5000,
     "{a,b", "[a", "jax/linalg-loops/x86_64/mlp/more", "jax/**/**/**/**/**/**/**/**/nobody", "\udcff"],
    ids=lambda name: ascii(name)[:20],
)  # fmt: skip
def test_unknown_tests(verb: str, name: str, workspace: Workspace) -> None:
    before = tree(workspace.home)
    done = workspace(verb, "--", name)
    assert (done.code, done.stdout) == (2, ""), done
    assert len(done.stderr) < 12_000
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", done.stderr), done.stderr
    assert tree(workspace.home) == before


@pytest.mark.parametrize(
    "words",
    [
        ("--timeout", "0"), ("--timeout", "nan"), ("--timeout", "inf"), ("--timeout", "-1"), ("--timeout", "x"),
        ("--jobs", "0"), ("--jobs", "1e9"), ("--memory", "0"), ("--memory", "-5"), ("--format", "yaml"),
        ("--environment", "mlir"), ("--environment", "mlir=nobody"), ("--environment", "nobody=mlir"),
        ("--environment", "=mlir"), ("--junit", "{tmp}"), ("--nothing",), ("--catalog",), ("--cache-dir", ""), ("--catalog", ""),
    ],
)  # fmt: skip
def test_bad_options(words: tuple[str, ...], tmp_path: Path, workspace: Workspace) -> None:
    before = tree(workspace.home)
    done = workspace("run", "jax/linalg-loops/x86_64/mlp", *(word.format(tmp=tmp_path) for word in words))
    assert (done.code, done.stdout) == (2, ""), done
    assert tree(workspace.home) == before


@pytest.mark.parametrize(
    ("name", "message"),
    [("nobody", "no workload 'nobody'"), ("../mlp", r"no workload '\.\./mlp'"), ("mpl", "mlp"), ("", "no workload ''")],
)
def test_golden_of_no_workload(name: str, message: str, workspace: Workspace) -> None:
    refused(workspace("golden", "update", "--write", "--", name), message)


LOCK = "toolchains/locks/mine-cp311-linux-x86_64.txt"
HASH = "0" * 64


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (put(LOCK, "numpy\n"), rf"{LOCK}:1:1: expected .*got 'numpy'"),
        (put(LOCK, "--index-url http://x.invalid\n"), rf"{LOCK}:1:1: expected"),
        (put(LOCK, f"numpy==1 --hash=md5:{HASH}\n"), rf"{LOCK}:1:1: expected"),
        (put(LOCK, f"../numpy==1 --hash=sha256:{HASH}\n"), rf"{LOCK}:1:1: expected"),
        (put(LOCK, f"numpy==1;evil --hash=sha256:{HASH}\n"), rf"{LOCK}:1:1: expected"),
        (put(LOCK, b"\xff\xfe"), rf"{LOCK}:1:1: is not UTF-8"),
        (link(LOCK, "/etc/passwd"), f"{LOCK}: is a symbolic link that leaves the catalog"),
        (put(LOCK, "x" * (2 << 20)), f"{LOCK}:1:1048577: is larger than 1 MiB"),
    ],
)
def test_bad_locks(spoil: Spoil, message: str, catalog: Downstream, workspace: Workspace) -> None:
    """A lock says what is downloaded, and its names become folders."""
    if f"{sys.version_info.major}{sys.version_info.minor}" != "311":
        pytest.skip("the lock is one for CPython 3.11")
    catalog.write("toolchains/environments/mine.yaml", "description: X.\ncomponents: [numpy]\n")
    catalog.write(
        "matrix/frameworks/mine/framework.yaml",
        "description: X.\nenvironment: mine\nemits: {stablehlo: jax.py}\n",
    )
    catalog.write("matrix/frameworks/mine/importer.py", "def run(action): ...\n")
    spoil(catalog)
    before = tree(workspace.home)
    done = workspace("run", "mine/linalg-loops/x86_64/mine", "--catalog", catalog.root)
    refused(done, message)
    assert "root:" not in done.stderr
    assert tree(workspace.home) == before
