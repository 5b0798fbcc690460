"""Files in the form of torch-mlir's end-to-end tests: each test in a file has an outcome of its own."""

from __future__ import annotations

import json
from pathlib import Path

from support.workspace import Workspace

HEAD = """\
# A comment at the top.
import torch
from torch import nn

from torch_mlir_e2e_test.framework import TestUtils
from torch_mlir_e2e_test.registry import register_test_case
from torch_mlir_e2e_test.annotations import (
    annotate_args,
    export as exported,
)

SCALE, UNUSED = (
    2.0, "the text of a statement\\
",
)
"""

#: A module and a test of it; ``body`` is that of ``forward(self, x, y)``.
TEST = '''

class {name}Module(nn.Module):
    """
Text at the margin, which looks like a statement:
import nothing_at_all
    """

    def __init__(self):
        super().__init__()
        {init}

    @exported
    @annotate_args([None, ([-1, 3], torch.float32, True), ([-1, 3], torch.float32, True)])
    def forward(self, x, y={default}):
        {body}


# ==============================================================================

@register_test_case(
    module_factory=lambda: {name}Module(), timeout_seconds=10
)
def {name}_basic(module, tu: TestUtils):
    {calls}
'''
CALLS = "module.forward(tu.rand(4, 3, low=-1), tu.rand(4, 3))"


def case(name: str, body: str, *, init: str = "pass", calls: str = CALLS, default: str = "None") -> str:
    return TEST.format(name=name, body=body, init=init, calls=calls, default=default)


PASSES = {
    "Add": case("Add", "return SCALE * x + helper(y)"),
    "Weight": case("Weight", "return self.layer(x)", init="torch.manual_seed(0); self.layer = nn.Linear(3, 2)"),
    "Twice": case("Twice", "return x @ y.t()", calls="a = tu.rand(3, 3); module.forward(module.forward(a, a), a)"),
    "Number": case("Number", "return x.size(0), int(y)", calls="module.forward(tu.rand(4, 3), tu.randint(1)[0])"),
    "List": case("List", "return torch.cat(x, y)", calls="module.forward([tu.rand(2, 3), tu.rand(1, 3)], 0)"),
    "Writes": case("Writes", "x.add_(y); return x * 2"),
    "NaN": case("NaN", "return x + y", calls="module.forward(tu.nans(2, 3), tu.rand(2, 3))"),
    "Complex": case("Complex", "z = torch.complex(x, y); return z, z * z"),
    "Counts": case("Counts", "self.n += 1; return x * self.n", init="self.register_buffer('n', torch.zeros(3))"),
}
#: Tests that cannot run, and a part of the reason.
REFUSED = {
    "Random": (case("Random", "return x + torch.rand(3)"), "draws random numbers"),
    "Absent": (case("Absent", "return ops.nms(x, y, 0.5)"), "No module named 'absent_vision'"),
    "Uncalled": (case("Uncalled", "return x", calls="pass"), "Uncalled_basic does not call the module"),
    "Empty": (case("Empty", "return x[:0]"), "output 0 has no elements"),
}
MORE = "import absent_vision.ops as ops\n\ndef helper(y):\n    return y - 1\n"
MARGIN = "Text at the margin, which looks like a statement:\nimport nothing_at_all\n"
#: A file that ends in the middle of a class; without lines that only look like statements, tests before that can run.
HALF = (
    HEAD.partition("SCALE")[0]
    + case("Half", "return x").replace(MARGIN, "")
    + "\n\nclass Broken(nn.Module:\n    pass\n"
    + case("Whole", "return Broken(x)").replace(MARGIN, "")
)
FOREIGN = f"from torch_mlir_e2e_test.debug import lower\n{HEAD}{case('Foreign', 'return lower(x)')}"
SUITE = """\
description: Tests of others.
include: ["pytorch/linalg-loops/x86_64/theirs:*"]
xfail_sets: {pytorch/linalg-loops/x86_64: [XFAIL, CRASHING]}
"""
XFAIL = """\
from torch_mlir_e2e_test.test_suite import COMMON
XFAIL = {"Random_basic", "Add_basic"}
if torch_version_for_comparison() > version.parse("2.0.0"):
    XFAIL = XFAIL | {"Absent_basic", "Gone_basic"}
CRASHING = XFAIL & {"Random_basic"}
OTHER = COMMON
"""


def test_each_test_of_a_file_has_an_outcome_of_its_own(workspace: Workspace, tmp_path: Path) -> None:
    catalog, tests = tmp_path / "matrix", tmp_path / "suite"
    tests.mkdir()
    whole = [*PASSES.values(), *(text for text, _ in REFUSED.values())]
    (tests / "many.py").write_text(HEAD + "".join(whole) + MORE)
    (tests / "half.py").write_text(HALF)
    (tests / "foreign.py").write_text(FOREIGN)
    (catalog / "corpora" / "theirs").mkdir(parents=True)
    (catalog / "corpora" / "theirs" / "corpus.yaml").write_text(
        "description: Tests of others.\nsource: torch-mlir-e2e\nfolder: suite\n"
    )
    (catalog / "suites").mkdir()
    (catalog / "suites" / "theirs.yaml").write_text(SUITE)
    (tmp_path / "sets.py").write_text(XFAIL)
    report = workspace.run("theirs", catalog=tmp_path, code=1)
    found = {test["workload"].removeprefix("theirs:"): test for test in report.tests.values()}
    reasons = {f"many.{name}_basic": reason for name, (_, reason) in REFUSED.items()}
    reasons["half.Whole_basic"] = "SyntaxError: invalid syntax (suite/half.py, line "
    reasons["foreign.Foreign_basic"] = "nothing stands for lower of torch_mlir_e2e_test.debug"
    wanted = dict.fromkeys([*(f"many.{name}_basic" for name in PASSES), "half.Half_basic"], "pass")
    assert {name: test["outcome"] for name, test in found.items()} == wanted | dict.fromkeys(reasons, "import-failed")
    for name, reason in reasons.items():
        assert reason in found[name]["reason"], name

    results = tmp_path / "results.json"
    results.write_text(json.dumps(report.document))
    arguments = ("expect", "theirs", "--catalog", tmp_path, "--results", results, "--from", tmp_path / "sets.py")
    (cell,) = workspace(*arguments, "--format", "json").document["upstream"]["cells"]
    assert (cell["both_pass"], cell["both_fail"], cell["not_run"]) == (len(PASSES), 2, ["Gone_basic"])
    assert cell["only_they_fail"] == [{"outcome": "pass", "reason": "XFAIL", "tests": ["Add_basic"]}]
    assert {name for each in cell["only_we_fail"] for name in each["tests"]} == {
        "Uncalled_basic", "Empty_basic", "Whole_basic", "Foreign_basic",
    }  # fmt: skip
    assert "1 pass only here: XFAIL\n         Add_basic" in workspace(*arguments).stdout
