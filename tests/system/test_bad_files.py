"""Files and command lines that are wrong: exit 2, a sentence with the place, and nothing written, whatever they are."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from support.downstream import WORKLOAD, Downstream, tree
from support.spoiling import GOOD, MINE, WORK, Spoil, changed, folder, gone, link, pipe, put
from support.workspace import REPOSITORY, Finished, Workspace, new_home

SUITE = "description: Mine.\nblocks:\n  - product: {framework: [jax], pipeline: [linalg-loops], workload: [mine]}\n"
STEP = "description: A step.\nenvironment: mlir\naccepts: [linalg]\ngives: loops\npasses: canonicalize\n"

#: What is done to a good catalog, and what must be said then. All else that can be wrong: tests/fast/catalog, tests/fast/expand.
CASES: dict[str, tuple[Spoil, str]] = {
    "broken": (put(WORK, "inputs: {x: [1, 2\noutputs: 3\n"), rf"{WORK}:\d+:\d+: broken YAML"),
    "utf16": (put(WORK, WORKLOAD.encode("utf-16")), rf"{WORK}:1:1: is not UTF-8"),
    "control": (put(WORK, WORKLOAD + "# \x1b[2J\n"), rf"{WORK}:\d+:\d+: holds the control character U\+001B"),
    "deep": (put(WORK, "a: " + "[" * 100_000), rf"{WORK}:1:\d+: nested more than 32 levels deep"),
    "huge": (put(WORK, b"# " + b"x" * (2 << 20)), rf"{WORK}:1:1048577: is larger than 1 MiB, .*; split or shorten the file"),
    "unknown_key": (changed("inputs:", "imputs:"), rf"{WORK}:2:1: .*imputs.*inputs"),
    "formula_deep": (changed("iota()", "'" + "(" * 5000 + "1" + ")" * 5000 + "'"), rf"{WORK}:3:\d+: "),
    "unknown_pipeline": (put(MINE, SUITE.replace("linalg-loops", "linalg-lops")), rf"{MINE}:3:\d+: .*linalg-loops"),
    "exclude_nothing": (
        put(MINE, SUITE + "exclude:\n  - {tests: [jax/*/x86_64/nobody], reason: No.}\n"), rf"{MINE}:5:\d+: ",
    ),
    "duplicate": (put("matrix/workloads/matmul/workload.yaml", WORKLOAD), "matmul.*(two workloads|missing)"),
    "newline": (put("matrix/workloads/a\nb/workload.yaml", WORKLOAD), r"a\\nb"),
    "surrogate": (lambda catalog: os.makedirs(os.fsencode(catalog.root) + b"/matrix/workloads/\xff"), "workloads/"),
    "unknown_parameter": (
        put(
            "recipes/pipelines/bad.yaml",
            "description: X.\nentry: {linalg: []}\nsteps: [bufferize, linalg-to-loops, loops-to-llvm, "
            "{step: object, with: {optlevel: 2}}]\n",
        ),
        r"recipes/pipelines/bad\.yaml:3:\d+: .*opt-level",
    ),
    "step_environment": (
        put("recipes/steps/mine/step.yaml", STEP.replace("mlir", "mlri")), r"step\.yaml:2:1: .*mlir",
    ),
    "tolerance_evil": (
        put("golden/tolerances.yaml", "layers:\n  - {atol: '().__class__', rtol: 0, rationale: X.}\n"),
        r"golden/tolerances\.yaml:2:\d+: ",
    ),
    "link_out": (link("matrix/workloads/mine/jax.py", "/etc/passwd"), "mine/jax.py: is a symbolic link that leaves"),
    "link_device": (link("matrix/workloads/mine/jax.py", "/dev/stdin"), "mine/jax.py: "),
    "folder_for_golden": (folder("golden/mine/y.npy"), "golden/mine/y.npy"),
    "pipe_source": (pipe("matrix/workloads/mine/jax.py"), "jax.py: is neither a file nor a folder"),
    "no_source": (gone("matrix/workloads/mine/reference.py"), "reference.py"),
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
    verbs: list[tuple[str, ...]] = [("run",)]
    if given == "nowhere":
        verbs += [("plan",), ("explain", "jax/linalg-loops/x86_64/mlp"), ("golden", "update")]
    for verb in verbs:
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


@pytest.mark.parametrize(
    "name",
    ["nobody", "jax/nothing/x86_64/mlp", "../../etc/passwd", "a b", "$(id)", "<b>", "a\nb", "\x1b[2J", "", "/", "///", "*" * 5000,
     "{a,b", "[a", "jax/linalg-loops/x86_64/mlp/more", "jax/**/**/**/**/**/**/**/**/nobody", "\udcff"],
    ids=lambda name: ascii(name)[:20],
)  # fmt: skip
def test_unknown_tests(name: str, workspace: Workspace) -> None:
    before = tree(workspace.home)
    for verb in ("plan", "run", "explain") if name in ("nobody", "\x1b[2J") else ("run",):
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
        (put(LOCK, f"../numpy==1 --hash=sha256:{HASH}\n"), rf"{LOCK}:1:1: expected .*got '\.\./numpy"),
        (link(LOCK, "/etc/passwd"), f"{LOCK}: is a symbolic link that leaves the catalog"),
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
