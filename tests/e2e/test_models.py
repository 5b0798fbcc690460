"""Model files as others keep them: a folder, ten lines of YAML, and an honest outcome for each."""

from __future__ import annotations

from pathlib import Path

from support.house import House

HEAD = "import torch\nfrom torch import nn\n"
TAIL = "\ndef get_inputs():\n    return [torch.rand(N, 8)]\n\ndef get_init_inputs():\n    return []\n"
CORPUS = """\
description: Somebody's models.
source: torch-module
folder: models
with: {elements: 65536, gflops: 0.01}
"""


SUITE = """\
description: The same by other loops.
include: ["pytorch/linalg-loops/x86_64/zoo:mlp"]
properties:
  - name: as-vectorized
    tests: ["**"]
    agrees: {pipeline: linalg-vectorized, within: tolerance}
    reason: Both are the same program.
"""


def module(body: str, *, init: str = "pass", n: str = "4", more: str = "") -> str:
    """The text of a file with a module; ``body`` is that of ``forward(self, x)``."""
    return (
        f"{HEAD}N = {n}\n{more}\nclass Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n"
        f"    def forward(self, x):\n        {body}\n{TAIL}"
    )


LAYERS = "self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(40)])"
#: By file: its text, and the outcome and a part of the reason of its test.
MODELS = {
    "mlp.py": (module("return torch.relu(self.a(x))", init="self.a = nn.Linear(8, 16)"), "pass", ""),
    "norms.py": (
        module(
            "return self.c(self.b(self.a(x.view(2, 4, N, 8))))", n="8",
            init="self.a = nn.BatchNorm2d(4); self.b = nn.GroupNorm(2, 4); self.c = nn.LayerNorm(8)",
        ).replace("torch.rand(N, 8)", "torch.rand(8, N, 8)"), "pass", "",
    ),
    "deep/many tensors.py": (module("for each in self.layers: x = torch.tanh(each(x))\n        return x", init=LAYERS), "pass", ""),
    "large.py": (module("return x @ x.T", n="65536"), "pass", ""),
    "pair.py": (module("return {'sum': x.sum(), 'two': (x + x, x.argmax(1))}"), "pass", ""),
    "random.py": (module("return x + torch.rand_like(x)"), "import-failed", "draws random numbers"),
    "branch.py": (module("return x if x.sum() > 0 else -x"), "import-failed", "data-dependent"),
    "write.py": (module("x.mul_(2)\n        return x"), "import-failed", "writes to its inputs"),
    "nothing.py": (module("return 3"), "import-failed", "the module returns no tensor"),
    "beside.py": (module("return x", more="TABLE = open('table.txt').read()"), "import-failed", "table.txt"),
    "missing.py": (module("return x", more="import torchvision"), "import-failed", "No module named 'torchvision'"),
    "other.py": (f"{HEAD}class Net(nn.Module): ...\n", "import-failed", "the file defines no Model"),
    "empty.py": ("", "import-failed", "the file defines no Model"),
    "syntax.py": ("def f(:\n", "import-failed", "SyntaxError"),
}  # fmt: skip


def test_each_model_has_an_outcome_of_its_own(house: House, tmp_path: Path) -> None:
    for name, (text, _, _) in MODELS.items():
        file = tmp_path / "models" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    corpus = tmp_path / "matrix" / "corpora" / "zoo"
    corpus.mkdir(parents=True)
    (corpus / "corpus.yaml").write_text(CORPUS)
    report = house.run("pytorch/linalg-loops/x86_64/zoo:*", catalog=tmp_path, code=1)
    found = {report.tests[test]["workload"]: test for test in report.tests}
    names = {name: f"zoo:{name.removesuffix('.py').replace('/', '.').replace(' ', '_')}" for name in MODELS}
    assert {name: report.outcomes[found[names[name]]] for name in MODELS} == {
        name: outcome for name, (_, outcome, _) in MODELS.items()
    }
    for name, (_, _, reason) in MODELS.items():
        assert reason in report.tests[found[names[name]]].get("reason", ""), name
    assert 0 < report.tests[found["zoo:norms"]]["metrics"]["error_used"] < 1


#: Operators that no rule knows, an in-place write to a part, a decision, and a large sum.
HARD = (
    "y = x.clone(); y[:, 1] = x[:, 0].exp(); y[2:] *= 2; z = torch.cdist(x, y)\n"
    "        return z, torch.where(z > z.mean(), z, 0 * z).repeat(8, 512).sum(1), torch.linalg.inv(x[:4, :4] + 4 * torch.eye(4))"
)


def test_bounds_of_programs_are_audited_calibrated_and_explained(house: House, tmp_path: Path) -> None:
    models = {"mlp": MODELS["mlp.py"][0], "pair": MODELS["pair.py"][0], "hard": module(HARD)}
    for name, text in models.items():
        file = tmp_path / "models" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for path, text in (("corpora/zoo/corpus.yaml", CORPUS), ("suites/twice.yaml", SUITE)):
        (tmp_path / "matrix" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "matrix" / path).write_text(text)
    cell, more = "pytorch/linalg-loops/x86_64", ("--catalog", tmp_path, "--format", "json")

    done = house("golden", "audit", f"{cell}/zoo:{{mlp,pair}}", "--seeds", "2", *more)
    assert done.code == 0, done.stdout + done.stderr
    summary = done.document["summary"]
    assert summary["caught"] >= 0.99 * summary["mattered"] > 50
    assert (summary["allowed_flagged"], summary["not_audited"], done.document["beyond_bound"]) == (0, 0, [])
    derived = next(each for each in done.document["layers"] if each["layer"].endswith(", derived"))
    assert 0 < derived["used"] < 0.5

    done = house("golden", "calibrate", f"{cell}/zoo:mlp", "--seeds", "10", *more)
    assert done.code == 0, done.stdout + done.stderr
    (layer,) = done.document["layers"]
    assert layer["layer"].endswith(", derived")
    assert 0 < layer["p50"] <= layer["largest"] < 0.5
    assert (layer["proposed"], layer["bounds"], done.document["patch"]) == (None, {}, "")
    assert "no file has it" in layer["why_not"]

    explained = house("golden", "explain", f"{cell}/zoo:hard", *more).document
    for output in explained["outputs"]:
        assert output["element_bounds"]["rationale"].startswith("derived: "), output
        assert "sampled" in output["element_bounds"]["rationale"]
        assert output["oracle"].startswith("The same module in float64. It shares its author with the program")
    told = house("explain", f"{cell}/zoo:hard", "--catalog", tmp_path).stdout
    assert "matrix/sources/torch-module/source.yaml:1:1 expects" in told

    report = house.run("twice", catalog=tmp_path)
    assert report.outcomes[f"{cell}/zoo:mlp~as-vectorized"] == "pass"


def test_what_programs_cannot_be_asked_is_said(house: House) -> None:
    onnx = "onnx/linalg-loops/x86_64/onnx-nodes:test_abs"
    done = house("golden", "calibrate", onnx, "--seeds", "10")
    assert done.code == 2
    assert "a program in the form onnx-node has a single set of inputs" in done.stderr
