"""A pin that moves along real commits: what broke, whose fault it is, what became of carried patches, and the branch."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.environments.installed.integrity import damaged_files
from mlir_matrix.environments.source.store import BuildStore
from support.downstream import Downstream, tree
from support.hostile import INNOCENT_MLIR
from support.loopback import serve
from support.machine import git, needs
from support.pages import blocks
from support.upstreams import BUILD, TOOL, Upstream, write_catalog
from support.workspace import REPOSITORY, Finished, Workspace, wait_until

pytestmark = needs("git")

PARTS = ("a", "b", "c", "d")


def part(name: str, says: str = "right") -> str:
    """Return the part of the tool that one test looks for."""
    return f'# one\n# two\n# three\n# four\necho "// {name}: {says}" >> "$2"\n'


def first(**wrong: str) -> dict[str, str]:
    """Return the files of the first commit; ``wrong``: parts that say something else."""
    parts = {f"{name}.part": part(name, wrong.get(name, "right")) for name in PARTS}
    return {
        "tool": TOOL, "check": "true\n", "options": "fold-parts\nstrip\n",
        "0.part": 'echo "module {}" > "$2"\n', **parts,
    }  # fmt: skip


@dataclass(frozen=True)
class Project:
    """An upstream, and the catalog of a downstream, which is a repository too."""

    upstream: Upstream
    catalog: Downstream

    def keep(self) -> None:
        git(self.catalog.root, "init", "-q", "-b", "main")
        git(self.catalog.root, "add", "-A")
        git(self.catalog.root, "commit", "-q", "-m", "All")

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("integrate", "tool", "--suite", "all", "--catalog", str(self.catalog.root))


def commits(upstream: Upstream, count: int, special: Mapping[int, tuple[str, Mapping[str, str]]]) -> dict[int, str]:
    """Make commits 0, 1, …, each with a file of its own; return the special ones."""
    found = {}
    for number in range(count):
        subject, files = special.get(number, (f"Change {number}", {}))
        found[number] = upstream.commit(subject, {f"notes-{number}": "x\n", **files})
    return {number: found[number] for number in special}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Fifteen commits with a renamed option, two breaks of which one hides the other, and three carried patches."""
    root = tmp_path_factory.mktemp("integrate")
    upstream = Upstream(root / "upstream")
    upstream.commit("First", first(c="wrong", d="wrong"))
    patches = [
        upstream.patch("Mend c", {"c.part": part("c")}, 1),
        upstream.patch("Mend d", {"d.part": part("d")}, 2),
        upstream.patch("Say more of a", {"a.part": part("a").replace("# two", "# two, and more")}, 3),
    ]
    made = Project(upstream, Downstream(root / "catalog"))
    special = {
        3: ("Say d otherwise", {"d.part": part("d")}),
        5: ("Stop to build", {"check": "echo 'check:1: error: no'; false\n"}),
        6: ("Build again", {"check": "true\n"}),
        8: ("Rename an option", {"options": "fuse-parts\nstrip\n"}),
        11: ("Break b", {"b.part": part("b", "wrong")}),
        13: ("Crash in b", {"b.part": "echo 'b.part:1: error: crash' >&2; exit 1\n"}),
    }
    commits(upstream, 15, special)
    write_catalog(made.catalog, upstream, PARTS, patches=dict(patches))
    made.keep()
    return made


@pytest.fixture(scope="module")
def integrated(workspace: Workspace, project: Project) -> Finished:
    """The integration that has made its branch."""
    return workspace(*project.arguments, "--reduce", "--format", "json", "--quiet")


def test_integrate_moves_the_pin_and_says_what_became_of_patches(
    workspace: Workspace, project: Project, integrated: Finished
) -> None:
    ids = project.upstream.commits
    assert integrated.code == 1, integrated.stderr
    found = integrated.document
    # Commit 10 is the 12th: before it is the first one.
    assert found["furthest"] == found["pin"] == {"commit": ids[11], "subject": "Change 10"}
    culprits = {tuple(each["commit"] for each in broken["culprits"]): broken for broken in found["breaks"]}
    assert culprits.keys() == {(ids[12],), (ids[14],)}
    assert {each["fault"] for each in found["breaks"]} == {"upstream"}
    assert culprits[ids[12],]["tests"] == ["mlir/tool/ir/b"]
    assert [(each["old"], each["new"], each["culprit"]["commit"]) for each in found["renames"]] == [
        ("fold-parts", "fuse-parts", ids[9])
    ]
    states = {each["subject"]: (each["state"], each["commit"]) for each in found["patches"]}
    assert states == {"Mend c": ("needed", ""), "Mend d": ("upstreamed", ids[4]), "Say more of a": ("unneeded", "")}
    _check_branch(workspace, project, found)
    folder = Path(found["folder"])
    assert "| Mend d | upstreamed |" in (folder / "pull-request.md").read_text()
    issue = (folder / "issue-1.md").read_text()
    assert f"Break b changed it. `{ids[11][:12]}` Change 10 does not show it." in issue
    wrong, crash = culprits[ids[12],], culprits[ids[14],]
    assert "its directives are for this program" in wrong["trouble"]
    assert crash["program"] in Path(crash["report"]).read_text()
    assert Path(crash["reduction"], "report.md").is_file()


@needs("jq")
def test_the_workflow_pushes_the_branch_and_opens_a_pull_request(
    project: Project, integrated: Finished, tmp_path: Path
) -> None:
    """Its last step, with a repository as the remote one, and a gh that notes how it is called."""
    (tmp_path / "found.json").write_text(integrated.stdout)
    (workflow,) = (
        block.text for block in blocks(REPOSITORY / "docs/integrating.md") if block.text.startswith("on: {schedule")
    )
    step = yaml.safe_load(workflow)["jobs"]["integrate"]["steps"][-1]["run"]
    remote, called = tmp_path / "remote", tmp_path / "called"
    subprocess.run(["git", "init", "-q", "--bare", remote], check=True)
    git(project.catalog.root, "remote", "add", "origin", str(remote))
    (tmp_path / "gh").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {called}\n')
    (tmp_path / "gh").chmod(0o755)
    script = step.replace("found.json", str(tmp_path / "found.json"))
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-e", "-c", script], cwd=project.catalog.root, env=environment, check=True)
    (branch,) = (each["name"] for each in integrated.document["branches"])
    pushed = subprocess.run(["git", "-C", remote, "branch", "--list"], check=True, capture_output=True, text=True)
    assert pushed.stdout.split() == [branch]
    words = called.read_text().splitlines()
    assert words[:4] == ["pr", "create", "--head", branch]
    assert "| Mend d | upstreamed |" in Path(words[-1]).read_text()


def _check_branch(workspace: Workspace, project: Project, found: Any) -> None:
    """Check that the branch has a commit for the move and one for the patch that nothing needs, and that it holds."""
    (branch,) = (each["name"] for each in found["branches"])
    subjects = git(project.catalog.root, "log", "--format=%s", f"main..{branch}").splitlines()
    assert subjects == [
        "Drop 0003-Say-more-of-a.patch, which no test needs",
        f"Move tool to {found['pin']['commit'][:12]}",
    ]
    git(project.catalog.root, "checkout", "-q", branch)
    try:
        assert "--fuse-parts" in (project.catalog.root / "recipes/steps/tool/step.yaml").read_text()
        assert [each.name for each in (project.catalog.root / "patches").iterdir()] == ["0001-Mend-c.patch"]
        done = workspace("run", "all", "--catalog", project.catalog.root, "--format", "json", "--quiet")
        assert done.code == 0, done.stdout
        assert all(test["cached"] for test in done.document["tests"]), "it was tried before it was proposed"
        again = workspace(*project.arguments, "--to", found["pin"]["commit"], "--check")
        assert again.code == 0
    finally:
        git(project.catalog.root, "checkout", "-q", "main")


#: A step of the tool before the route of linalg-loops.
PIPELINE = """\
description: The tool, then loops.
entry: {linalg: [tool]}
steps: [linalg-fuse, bufferize, linalg-to-loops, loops-to-llvm]
codegen: {opt-level: 2}
"""
#: What adds in a longer way, which LLVM must not simplify.
LONGER = (
    "%one = arith.constant 1.0 : f32 %up = arith.addf %in, %one : f32 "
    "%down = arith.subf %in, %one : f32 %2 = arith.addf %up, %down : f32"
)


def test_integrate_updates_golden_costs(workspace: Workspace, tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "upstream")
    copied = {"tool": TOOL, "check": "true\n", "options": "fold-parts\n", "0.part": 'cp "$1" "$2"\n'}
    upstream.commit("First", copied)
    upstream.commit("Add slowly", {"0.part": f'sed "s/%2 = .*/{LONGER}/" "$1" > "$2"\n'})
    made = Project(upstream, Downstream(tmp_path / "catalog"))
    write_catalog(made.catalog, upstream, ())
    made.catalog.workload("twice", linalg=INNOCENT_MLIR)
    made.catalog.write("recipes/pipelines/tooled.yaml", PIPELINE)
    made.catalog.write("matrix/suites/all.yaml", "description: all\ninclude: [mlir/tooled/x86_64-v3/twice]\n")
    written = workspace("golden", "update", "--cost", "--write", "all", "--catalog", made.catalog.root)
    assert written.code == 0, written.stderr
    made.keep()
    done = workspace(*made.arguments, "--format", "json", "--quiet")
    assert done.code == 0, done.stderr
    (branch,) = (each["name"] for each in done.document["branches"])
    assert "mlir/tooled/x86_64-v3/twice: instructions " in git(made.catalog.root, "log", "-1", "--format=%b", branch)
    git(made.catalog.root, "checkout", "-q", branch)
    unchanged = workspace("golden", "update", "--cost", "all", "--catalog", made.catalog.root)
    assert unchanged.code == 0, unchanged.stdout


def test_integrate_carries_reverts_of_culprits(workspace: Workspace, project: Project) -> None:
    """The second break, which hides the first, is reverted first."""
    done = workspace(*project.arguments, "--reverts", "--check", "--format", "json", "--quiet")
    assert done.code == 1, "with --check: something would change"
    found = done.document
    assert found["reverts"]["green"], found["reverts"]
    assert sorted(found["reverts"]["reverts"]) == ['Revert "Break b"', 'Revert "Crash in b"']
    assert found["pin"] == found["newest"]
    assert not found["branches"]


def test_a_killed_integration_goes_on(workspace: Workspace, project: Project) -> None:
    """No commit is built twice."""
    last, packages = project.upstream.commits[8], workspace.home / "packages"

    def built() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in packages.glob("tool-*")}

    before = built()
    # Another command is another build. Packages of earlier sessions are there.
    build = ("--build", f"{BUILD} # {time.time_ns()}")
    arguments = (*project.arguments, *build, "--to", last, "--check", "--format", "json")
    with workspace.start(*arguments) as process:
        assert wait_until(lambda: len(built().keys() - before.keys()) > 1)
        process.kill()
    kept = built()
    done = workspace(*arguments)
    assert done.code == 1, done.stderr
    assert done.document["furthest"]["subject"] == "Change 7"
    assert kept.items() <= built().items()


def test_prefetch_builds_what_a_walk_needs(workspace: Workspace, project: Project) -> None:
    arguments = (*project.arguments, "--build", f"{BUILD} # {time.time_ns()}", "--to", project.upstream.commits[4])
    done = workspace(*arguments, "--prefetch", "--budget", "1h")
    assert (done.code, done.stdout) == (0, "5 of 5 commits built\n"), done.stderr
    packages = {path.name for path in (workspace.home / "packages").glob("tool-*")}
    assert workspace(*arguments, "--prefetch").code == 0
    assert {path.name for path in (workspace.home / "packages").glob("tool-*")} == packages
    late = workspace(*arguments, "--prefetch", "--budget", "0.001s")
    assert late.stdout == "the time is over; 5 commits left\n0 of 5 commits built\n"


def test_built_commits_are_shared_by_a_store(workspace: Workspace, project: Project, tmp_path: Path) -> None:
    """Pushed once, served by HTTP, pulled into another home; what is damaged or leaves its folder is refused."""
    packages, store = workspace.home / "packages", tmp_path / "store"
    pushed = workspace(
        "toolchain", "push", "tool", "--to", store, "--catalog", project.catalog.root, "--format", "json"
    )
    assert pushed.code == 0, pushed.stderr
    names = [each["name"] for each in pushed.document["builds"]]
    again = workspace("toolchain", "push", "tool", "--to", store, "--catalog", project.catalog.root, "--format", "json")
    assert again.document["summary"]["transferred"] == 0
    with serve(store) as server:
        there = BuildStore(server.address)
        assert there.builds() == sorted(names)
        there.pull(names[0], tmp_path / "packages")
        assert tree(tmp_path / "packages" / names[0]).keys() == tree(packages / names[0]).keys()
        assert not damaged_files(tmp_path / "packages" / names[0], thorough=True)
        pulled = workspace(
            "toolchain", "pull", f"tool@{names[0][-20:]}", "--from", there.address, "--catalog", project.catalog.root
        )
        assert "has no build of such a commit" in pulled.stderr
        listed = store / "builds" / f"{names[1]}.json"
        text = listed.read_text()
        listed.write_text(text.replace('"bin/tool"', '"../tool"'))
        with pytest.raises(InfrastructureError, match="is no list of files of a build"):
            there.pull(names[1], tmp_path / "packages")
        listed.write_text(text)
        for kept in (store / "files").iterdir():
            kept.write_bytes(kept.read_bytes()[:-1])
        with pytest.raises(InfrastructureError, match="is damaged"):
            there.pull(names[1], tmp_path / "packages")
    assert [each.name for each in (tmp_path / "packages").glob("[!.]*")] == [names[0]]


def test_dry_run_prints_what_would_run_for_llvm_itself(workspace: Workspace) -> None:
    arguments = ("--suite", "smoke", "--from", "llvmorg-22-init", "--to", "llvmorg-23-init")
    done = workspace("integrate", "llvm", *arguments, "--dry-run")
    assert done.code == 0, done.stderr
    assert "--filter=blob:none -- https://github.com/llvm/llvm-project" in done.stdout
    assert "rev-list --topo-order llvmorg-22-init..llvmorg-23-init" in done.stdout


def test_integrate_ends_in_time(workspace: Workspace, project: Project) -> None:
    done = workspace(*project.arguments, "--budget", "0.01s", "--check", "--format", "json", "--quiet")
    assert not done.document["complete"]
    assert done.document["furthest"]["subject"] == "First"
    assert {each["state"] for each in done.document["patches"]} == {"unknown"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tol"], "there is no component 'tol'; did you mean 'tool'?"),
        (["tool", "--suite", "al"], "there is no suite 'al'"),
        (["tool", "--suite", "all", "--from", "nope"], "'nope' is no commit, tag or branch of"),
        (["tool", "--suite", "all", "--patches", "nope"], "there is no such folder; expected one with files *.patch"),
        (["tool", "--suite", "all", "--patches", "matrix"], "matrix/bad.patch: it has no diff"),
        (["tool", "--suite", "all", "--goal", "x"], "expected a component and its least release, e.g. 'llvm>=22'"),
        (["tool", "--suite", "all", "--goal", "x>=1"], "--goal: there is no component that goes with it 'x'"),
        (["numpy", "--suite", "all"], "numpy has no 'build' in toolchains/components/numpy.yaml; name its repository"),
    ],
)
def test_integrate_refuses_bad_arguments(
    workspace: Workspace, project: Project, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "matrix").mkdir()
    (tmp_path / "matrix" / "bad.patch").write_text("nothing\n")
    done = workspace("integrate", *arguments, "--catalog", project.catalog.root, cwd=tmp_path)
    assert done.code == 2
    assert message in done.stderr
