"""``matrix explain --oracles``: whether the test or its golden is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.downstream import Downstream, npy
from support.factors import COMPILER, compiler, factors
from support.workspace import Workspace


@pytest.fixture
def catalog(tmp_path: Path) -> Downstream:
    made = factors(tmp_path / "factors", "doubled", "misjudged")
    made.write("golden/misjudged/y.npy", npy(np.float64([0, 2, 4, 7])))
    compiler(made, "plain")
    compiler(made, "shifted", files={"tool.py": COMPILER.format(more=" + 0.5")})
    compiler(made, "interpreter", more="oracle: It interprets.\n")
    compiler(made, "other", more="oracle: Another author wrote it.\n")
    return made


def asked(workspace: Workspace, catalog: Downstream, test: str) -> Any:
    done = workspace("explain", test, "--oracles", "--catalog", catalog.root, "--format", "json", "-q")
    assert done.code == 0, done.stderr
    return done.document


def test_who_agrees_with_whom(workspace: Workspace, catalog: Downstream) -> None:
    right = asked(workspace, catalog, "factor/plain/times/doubled")
    assert (right["conclusion"], right["summary"]) == (
        "nothing is suspected", {"oracles": 2, "with_test": 2, "with_reference": 2},
    )  # fmt: skip
    wrong = asked(workspace, catalog, "factor/shifted/times/doubled")
    assert wrong["sentence"] == "the test is wrong: both oracles agree with the reference, none with the test"
    (output,) = wrong["outputs"]
    assert output["elements"][0] == {"index": [3], "values": {"test": 7.5, "A": 6.0, "B": 6.0, "reference": 6.0}}
    assert [pair["differ"] for pair in output["pairs"] if "test" in (pair["one"], pair["other"])] == [3, 3, 3]
    suspected = asked(workspace, catalog, "factor/plain/times/misjudged")
    assert suspected["conclusion"] == "reference is suspected"
    assert [each["index"] for each in suspected["outputs"][0]["elements"]] == [[3]]
    # An oracle is no oracle for itself.
    assert asked(workspace, catalog, "factor/other/times/doubled")["summary"]["oracles"] == 1


def test_in_words(workspace: Workspace, catalog: Downstream) -> None:
    done = workspace("explain", "factor/shifted/times/misjudged", "--oracles", "--catalog", catalog.root, "-q")
    first, *lines = done.stdout.splitlines()
    assert first.endswith("undecided: both oracles agree with each other, but with neither the test nor the reference")
    assert lines == [
        "",
        "  test       factor/shifted/times/misjudged      mismatch",
        "  reference  the golden",
        "  A          factor/interpreter/times/misjudged  mismatch: It interprets.",
        "  B          factor/other/times/misjudged        mismatch: Another author wrote it.",
        "",
        "y, f32 4, a bound of each element: elements that differ by more, and the largest difference",
        "          A       B       reference",
        "    test  3, 1.5  3, 1.5  3, 1",
        "    A             =, 0    1, 1",
        "    B                     1, 1",
        "  largest differences",
        "    index  test  A  B  reference",
        "    [3]    7.5   6  6  7",
        "    [2]    5     4  4  4",
        "    [1]    2.5   2  2  2",
    ]


def test_what_has_no_oracles(workspace: Workspace, catalog: Downstream, tmp_path: Path) -> None:
    for test, message in (
        ("mlir/bufferize/ir/*", "none of these tests runs and compares outputs with a golden"),
        ("mlir/linalg-loops/x86_64/dot", "no oracle takes the workload dot here; oracles: interpreter, "),
    ):
        done = workspace("explain", test, "--oracles", "--catalog", catalog.root, "-q")
        assert (done.code, done.stdout) == (2, "")
        assert message in done.stderr


#: A form of programs: a factor, whose second element has a bound of its own that is 49 times the error allowed to others.
PREPARE = """\
from pathlib import Path

import numpy as np

from mlir_matrix.actions import api


def run(action):
    np.save("x.npy", np.arange(4, dtype=np.float32))
    np.save("y.npy", 2 * np.arange(4, dtype=np.float64))
    np.save("bound.npy", np.float64([0, 0.5, 0.5, 0.5]) / 49)
    spec = {"shape": [4], "dtype": "f32", "dynamic": []}
    wanted = api.Expected(declared={"name": "y", **spec}, file="y.npy", bound="bound.npy", rationale="derived: by hand.")
    api.write_prepared(action, "2", [({"name": "x", **spec}, "x.npy")], [wanted])
"""
SOURCE = "description: Doubles.\ngives: factor.txt\nmembers: ['*.any']\nenvironment: numpy\n"


def test_programs_with_a_bound_of_each_element(workspace: Workspace, catalog: Downstream) -> None:
    """One oracle crashes: its outputs agree with nobody's. The test is 49 times over the bound of its second element."""
    catalog.write("matrix/sources/any/prepare.py", PREPARE)
    catalog.write("matrix/sources/any/source.yaml", SOURCE)
    catalog.write("matrix/corpora/zoo/corpus.yaml", "description: Doubles.\nsource: any\nfolder: zoo\n")
    catalog.write("zoo/double.any", "")
    crash = {"tool.py": "import os\n\n\ndef run(action):\n    os.abort()\n"}
    compiler(catalog, "crashing", files=crash, more="oracle: It tried.\n")
    found = asked(workspace, catalog, "factor/shifted/times/zoo:double")
    assert found["sentence"] == "the test is wrong: both oracles agree with the reference, none with the test"
    (output,) = found["outputs"]
    assert {(pair["one"], pair["other"]): pair["differ"] for pair in output["pairs"]} == {
        ("test", "B"): 3, ("test", "C"): 3, ("B", "C"): 0,
        ("test", "reference"): 3, ("B", "reference"): 0, ("C", "reference"): 0,
    }  # fmt: skip
    assert (output["own_bounds"], output["elements"][0]["index"]) == (True, [3])
    assert [each.get("unusable", "") for each in found["witnesses"]] == [
        "", "", "crashing: SIGABRT while at stage codegen", "", "",
    ]  # fmt: skip
    text = workspace("explain", found["id"], "--oracles", "--catalog", catalog.root, "-q").stdout
    assert "\ny, f32 4, a bound of each element: elements that differ" in text
    # Where nothing can be prepared, nothing is compared.
    catalog.write("matrix/sources/any/prepare.py", "from mlir_matrix.actions import api\n\n\ndef run(action):\n"
                  "    raise api.ActionFailed('no program')\n")  # fmt: skip
    nothing = asked(workspace, catalog, "factor/plain/times/zoo:double")
    assert (nothing["conclusion"], nothing["outputs"], nothing["summary"]["oracles"]) == ("undecided", [], 0)
    assert nothing["witnesses"][0]["unusable"] == "no program"
