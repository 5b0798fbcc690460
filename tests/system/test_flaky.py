"""Flaky tests: found by running them anew, held in quarantine until a day, and never silently passed."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.downstream import Downstream
from support.workspace import Workspace

#: What JAX compiles depends on the clock: y = 2 * x, or y = 3 * x.
COIN = """\
import time


def workload(x):
    return x * (2 + time.time_ns() // 1000 % 2)
"""
FLAKY, STEADY = "jax/linalg-loops/x86_64/coin", "mlir/linalg-loops/x86_64/dot"
QUARANTINE = """\
quarantine:
  - tests: ["jax/**"]
    owner: someone@example.org
    until: {until}
    reason: The clock decides.
    link: https://example.org/8
"""


@pytest.fixture
def acme(tmp_path: Path) -> Downstream:
    catalog = Downstream(tmp_path / "acme")
    catalog.workload("coin", jax=COIN)
    return catalog


def test_a_flaky_test(workspace: Workspace, acme: Downstream) -> None:
    """Twenty runs show both outcomes but once in half a million times."""
    report = workspace.run(FLAKY, STEADY, "--repeat", "20", "--catalog", str(acme.root), code=1)
    flaky, steady = report.tests[FLAKY], report.tests[STEADY]
    assert steady["repeats"] == {"pass": 20}
    assert not steady["cached"]
    assert flaky["repeats"].keys() == {"pass", "mismatch"}
    assert sum(flaky["repeats"].values()) == 20
    assert re.match(r"flaky: (\d+ (pass|mismatch)(, )?){2} in 20 runs; ", flaky["reason"])
    assert (flaky["outcome"], flaky["expected"]) == ("mismatch", False)
    assert "--repeat" not in flaky["repeat"]
    assert (Path(flaky["kept"]) / "error-y.svg").is_file()
    # The history has each of them.
    shown = workspace("history", "show", FLAKY, "--flaky")
    assert re.search(rf"{FLAKY} .*\b20 .*mismatch.*pass|{FLAKY} .*\b20 .*pass.*mismatch", shown.stdout), shown.stdout


def test_a_quarantine(workspace: Workspace, acme: Downstream, tmp_path: Path) -> None:
    acme.workload("coin", jax="def workload(x):\n    return x * 3\n")
    acme.write("matrix/quarantine.yaml", QUARANTINE.format(until="2999-12-31"))
    junit = tmp_path / "junit.xml"
    done = workspace("run", FLAKY, STEADY, "--catalog", acme.root, "--junit", junit)
    assert done.code == 0, done.stderr
    assert f"failed in quarantine\n  mismatch {FLAKY}: someone@example.org, until 2999-12-31 (" in done.stdout
    assert "all as expected, 1 in quarantine; " in done.stdout
    assert f"mismatch       {FLAKY}  (in quarantine until 2999-12-31)" in done.stderr
    cases = {case.get("name"): [each.tag for each in case] for case in ElementTree.parse(junit).iter("testcase")}
    assert cases == {"coin": ["skipped"], "dot": []}

    # After the last day it fails again, and the reason names the entry.
    file = acme.write("matrix/quarantine.yaml", QUARANTINE.format(until="2020-01-01"))
    test = workspace.run(FLAKY, "--catalog", str(acme.root), code=1).tests[FLAKY]
    assert test["reason"].endswith(f"; its quarantine ended on 2020-01-01 ({file}:2:5; someone@example.org)")


def test_a_run_from_a_stage(workspace: Workspace) -> None:
    """What comes before the stage is cached, and so is what judges equal outputs."""
    workspace.run(STEADY)
    for stage, tools in (("run", {"run"}), ("codegen", {"object", "link", "run"})):
        report = workspace.run(STEADY, "--rerun-from", stage)
        assert {re.split("[/-]", action)[0] for action in report.actions} == tools
        assert not report.tests[STEADY]["cached"]


def test_a_quarantine_that_is_wrong(workspace: Workspace, acme: Downstream) -> None:
    acme.write("matrix/quarantine.yaml", QUARANTINE.format(until="soon").replace("jax/**", "jax/*/*/nothing"))
    done = workspace("plan", FLAKY, "--catalog", acme.root)
    assert done.code == 2
    assert "quarantine.yaml:4:5: 'soon' is not a day, such as 2026-12-31" in done.stderr
    acme.write("matrix/quarantine.yaml", QUARANTINE.format(until="2999-12-31").replace("jax/**", "jax/*/*/nothing"))
    done = workspace("plan", FLAKY, "--catalog", acme.root)
    assert "quarantine.yaml:2:13: 'jax/*/*/nothing' matches no test: there is no workload 'nothing'" in done.stderr
