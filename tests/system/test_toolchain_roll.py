"""``matrix toolchain roll`` on a catalog whose compiler is a script: what it proposes, what it tells, and how it ends."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import rolling
from support.fake_index import open_rolling
from support.machine import program
from support.workspace import Finished, Workspace


@pytest.fixture
def roller(tmp_path: Path, environments: Any) -> Iterator[Workspace]:
    with open_rolling(tmp_path, environments, rolling.files("1.0", "2.0", "3.0")) as made:
        yield made


def roll(roller: Workspace, *components: str, code: int, suite: str = "smoke") -> Finished:
    done = roller("toolchain", "roll", "--quiet", *components, "--suite", suite)
    assert done.code == code, (done.code, done.stdout, done.stderr)
    return done


def test_roll(roller: Workspace) -> None:
    """The newest breaks a test, the one before it is green; under the pins of the patch nothing is left to propose."""
    assert roller.root is not None
    known = roller.root / "toolchains" / "known-good.yaml"
    before = known.read_text()
    done = roll(roller, "tool", code=0)
    assert "tool: 1.0 -> 3.0: breaks 1 of 2 tests of suite smoke that it affects\n" in done.stderr
    assert f"  lower-failed {rolling.TESTS[1]}: count: the passes failed: two is too much\n" in done.stderr
    assert "tool: 1.0 -> 2.0: green, 2 tests of suite smoke affected\n" in done.stderr
    assert known.read_text() == before
    subprocess.run([program("git"), "apply"], input=done.stdout, text=True, cwd=roller.root, check=True)
    changed = dict(zip(before.splitlines(), known.read_text().splitlines(), strict=True))
    ours = [line for line, now in changed.items() if now != line]
    assert [changed[line] for line in ours[:1]] == ['  tool: "2.0"  # for a while']
    assert re.fullmatch(r'  - \{suite: smoke, as_expected: 3, total: 3, date: "[0-9-]+",  # long ago', changed[ours[1]])
    assert len(ours) == 3, "pin, numbers and digest; nothing else"
    report = roller.run("smoke")
    assert report.executed == 0, "what was proposed is what was tried"
    assert f"outcomes: {report.document['summary']['outcomes']}" in changed[ours[2]].replace('"', "")
    assert {test["pins"]["tool"] for name, test in report.tests.items() if "/keep/" in name} == {"1.0"}
    # And from there on.
    again = roll(roller, "tool", code=1)
    assert again.stdout == ""
    assert "tool: 2.0 -> 3.0: breaks 1 of 2 tests of suite smoke that it affects\n" in again.stderr
    assert f"  lower-failed {rolling.TESTS[1]}: " in again.stderr


def test_a_release_that_breaks_a_test_is_accepted(roller: Workspace) -> None:
    """The newest is taken: one patch has its pin and the expectation of what it breaks, and nothing is run again."""
    assert roller.root is not None
    done = roll(roller, "tool", "--accept", code=0)
    assert (
        "tool: 1.0 -> 3.0: breaks 1 of 2 tests of suite smoke that it affects, and is taken with changed expectations\n"
        in done.stderr
    )
    subprocess.run([program("git"), "apply"], input=done.stdout, text=True, cwd=roller.root, check=True)
    assert 'tool: "3.0"' in (roller.root / "toolchains/known-good.yaml").read_text()
    report = roller.run("smoke")
    assert report.executed == 0
    assert {name: test["expected"] for name, test in report.tests.items()} == dict.fromkeys(rolling.TESTS, True)
    assert report.tests[rolling.TESTS[1]]["outcome"] == "lower-failed"


def test_what_is_not_tried(roller: Workspace) -> None:
    assert roller.root is not None
    (roller.root / "toolchains/components/tool.yaml").write_text(rolling.component("tool", "1.0", rolling.UNLOCKED))
    done = roll(roller, "tool", code=3)
    assert (
        "tool: 1.0 -> 4.0: not tried: tool@4.0 has no lock file; make one with: matrix toolchain lock tool@4.0"
        in done.stderr
    )
    assert done.stdout == ""
    done = roll(roller, "idle", code=2)
    assert "idle: 1.0 -> 2.0: not tried: no test of suite smoke uses it" in done.stderr
    assert "no test of suite smoke uses idle; name another suite with --suite" in done.stderr
    done = roll(roller, "numpy", code=0)
    assert "numpy: 2.4.6 is the newest listed release" in done.stderr
    for name in ("tool", "idle", "more"):
        (roller.root / f"toolchains/components/{name}.yaml").write_text(rolling.component(name, "1.0"))
    assert roll(roller, code=0).stderr == "no component lists a newer release than the pinned one\n"
    assert "did you mean 'tool'" in roll(roller, "toool", code=2).stderr
    assert "there is no suite 'smke'; did you mean 'smoke'" in roll(roller, code=2, suite="smke").stderr
