"""Model files as others keep them: a folder, ten lines of YAML, and an honest outcome for each."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.drawn_modules import draw
from support.workspace import Report, Workspace

HEAD = "import torch\nfrom torch import nn\n"
TAIL = "\ndef get_inputs():\n    return [torch.rand(N, 8)]\n\ndef get_init_inputs():\n    return []\n"
CORPUS = """\
description: Somebody's models.
source: torch-module
folder: NAME
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
NORMS = "self.a = nn.BatchNorm2d(4); self.b = nn.GroupNorm(2, 4); self.c = nn.LayerNorm(8)"
GIVEN = "[torch.rand(N, 8)]"
#: Models that pass, by file.
MODELS = {
    "mlp.py": module("return torch.relu(self.a(x))", init="self.a = nn.Linear(8, 16)"),
    "norms.py": module("return self.c(self.b(self.a(x.view(2, 4, N, 8))))", n="8", init=NORMS).replace(
        GIVEN, "[torch.rand(8, N, 8)]"
    ),
    "deep/many tensors.py": module("for each in self.layers: x = torch.tanh(each(x))\n        return x", init=LAYERS),
    "large.py": module("return x @ x.T", n="65536"),
    "pair.py": module("return {'sum': x.sum(), 'two': (x + x, x.argmax(1))}"),
    "byte order mark.py": "\ufeff" + module("return x + x"),
    "drawn when loaded.py": module("return x * T", more="T = torch.rand(8)"),
    "own dtype.py": module("return x.float() @ torch.ones(8, 8, dtype=torch.float32)"),
    "state.py": module("self.n += 1\n        return x * self.n", init="self.register_buffer('n', torch.zeros(8))"),
    "weight.py": module("return self.p", init="self.p = nn.Parameter(torch.rand(8))"),
    "by name.py": module("return x - x.mean()").replace(GIVEN, "{'x': torch.rand(N, 8)}"),
    "one input.py": module("return x - x.mean()").replace(GIVEN, "torch.rand(N, 8)"),
    "by dtype.py": module("return x * (2 if x.dtype == torch.float32 else 3)"),
    "float32 only.py": module("assert x.dtype == torch.get_default_dtype() == torch.float32\n        return x + x"),
    "two processes.py": module("return x + 1", more="import os\nos.fork()"),
    "decimals.py": module("return (10 * x).round(decimals=2), (100 * x).round(decimals=-1), x.round()"),
    "nan.py": module("return x * float('nan'), x / 0"),
    "nothing given.py": module("return 2 * torch.arange(12.0).view(3, 4)")
    .replace("self, x", "self")
    .replace(GIVEN, "[]"),
    "constants in bf16.py": module("return x * torch.tensor([0.5, 3.5], dtype=torch.bfloat16).repeat(4)").replace(
        GIVEN, "[torch.rand(N, 8).bfloat16()]"
    ),
}
#: Models that cannot be tested, and a part of the reason.
REFUSED = {
    "random.py": (module("return x + torch.rand_like(x)"), "draws random numbers"),
    "noise.py": (
        module("return x * float(R.random())", more="import numpy\nR = numpy.random.default_rng()"),
        "gives something else each time",
    ),
    "branch.py": (module("return x if x.sum() > 0 else -x"), "data-dependent"),
    "write.py": (module("x.mul_(2)\n        return x"), "writes to its inputs"),
    "nothing.py": (module("return 3"), "the module returns no tensor, but an object of type int"),
    "none of it.py": (module("return x[:0]"), "output 0 has no elements"),
    "sparse.py": (module("return x.to_sparse()"), "output 0 is sparse, nested or quantized"),
    "deep.py": (module("for _ in range(5000): x = [x]\n        return x"), "RecursionError"),
    "no float64.py": (
        module("assert x.view(torch.int32).shape == x.shape, 'float32 only'\n        return x"),
        "does not run in float64: float32 only",
    ),
    "by size.py": (
        module("return x * (2 if x.element_size() == 4 else 3)"),
        "32 of 32 elements of output 0 are more than 100 times",
    ),
    "lazy.py": (
        module("return self.a(x)", init="self.a = nn.LazyLinear(4)"),
        "the shape of parameter a.weight is unknown",
    ),
    "exit.py": (module("raise SystemExit(0)"), "the source ended its process: SystemExit(0)"),
    "no inputs.py": (module("return x").replace(f"return {GIVEN}", "pass"), "get_inputs returns None"),
    "beside.py": (module("return x", more="TABLE = open('table.txt').read()"), "table.txt"),
    "missing.py": (module("return x", more="import torchvision"), "No module named 'torchvision'"),
    "other.py": (f"{HEAD}class Net(nn.Module): ...\n", "the file defines no Model"),
    "empty.py": ("", "the file defines no Model"),
    "syntax.py": ("def f(:\n", "SyntaxError: invalid syntax (zoo/syntax.py, line 1)"),
    "deep/operator.py": (
        module("return torch.linalg.svdvals(x)"),
        "on !torch.vtensor<[4,8],f32>, from line 10 of zoo/deep/operator.py",
    ),
}


#: What the tosa-model gives back, by models with constants.
GIVEN_BACK = (
    "pytorch/tosa-model/tosa-model/zoo:nothing_given",
    "pytorch/tosa-model/tosa-model/zoo:constants_in_bf16",
    "pytorch/tosa-model/tosa-model+precise/zoo:constants_in_bf16",
)


def write_corpus(folder: Path, texts: Mapping[str, str], name: str = "zoo") -> None:
    """Write a catalog with a corpus of model files, by their name."""
    for model, text in texts.items():
        file = folder / name / f"{model.removesuffix('.py')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    corpus = folder / "matrix" / "corpora" / name
    corpus.mkdir(parents=True)
    (corpus / "corpus.yaml").write_text(CORPUS.replace("NAME", name))


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog with a corpus for each of the tests below, which do not change it."""
    folder = tmp_path_factory.mktemp("models")
    write_corpus(folder, MODELS | {name: text for name, (text, _) in REFUSED.items()})
    write_corpus(folder, {name: text for name, (text, _) in (SCALED | LOST | STUCK).items()}, "sizes")
    write_corpus(folder, near_zero(), "zeros")
    faults = {
        name: module(f"return {gives}").replace(GIVEN, f"[{given}]") for name, (gives, given, _) in FAULTS.items()
    }
    write_corpus(folder, faults, "faults")
    write_corpus(folder, {"overflow": OVERFLOW}, "overflow")
    write_corpus(folder, own_dtype_models(), "dtypes")
    return folder


@pytest.fixture(scope="module")
def report(workspace: Workspace, catalog: Path) -> Report:
    """All of them in one run: each run begins with the import of PyTorch in several processes."""
    tests = (
        "pytorch/linalg-loops/x86_64/{zoo,sizes,zeros,faults}:*",
        "pytorch/tosa-loops/x86_64/{zeros,faults}:*",
        "pytorch/stablehlo-loops/x86_64/faults:*",
        "pytorch/torch-eager/torch-eager/{overflow,dtypes}:*",
        "pytorch/xla-cpu/xla-cpu/overflow:*",
    )
    return workspace.run(*tests, *GIVEN_BACK, catalog=catalog, code=1)


def of_corpus(report: Report, name: str) -> dict[str, Any]:
    """The results of a corpus by test."""
    return {test: result for test, result in report.tests.items() if result["workload"].startswith(f"{name}:")}


def test_each_model_has_an_outcome_of_its_own(report: Report) -> None:
    texts = MODELS | {name: text for name, (text, _) in REFUSED.items()}
    results = of_corpus(report, "zoo")
    assert [results.pop(each)["outcome"] for each in GIVEN_BACK] == ["pass", "pass", "pass"]
    found = {test["workload"].removeprefix("zoo:"): test for test in results.values()}
    names = {name: name.removesuffix(".py").replace("/", ".").replace(" ", "_") for name in texts}
    assert {name: found[names[name]]["outcome"] for name in texts} == {
        name: "pass" if name in MODELS else "import-failed" for name in texts
    }
    for name, (_, reason) in REFUSED.items():
        assert reason in found[names[name]]["reason"], name
    assert 0 < found["norms"]["metrics"]["error_used"] < 1
    assert found["nan"]["weak"] == {"0-0": ["NaN everywhere"], "1-1": ["the mean everywhere"]}


#: Operators that no rule knows, an in-place write to a part, a decision, and a large sum.
HARD = (
    "y = x.clone(); y[:, 1] = x[:, 0].exp(); y[2:] *= 2; z = torch.cdist(x, y)\n"
    "        return z, torch.where(z > z.mean(), z, 0 * z).repeat(8, 512).sum(1), torch.linalg.inv(x[:4, :4] + 4 * torch.eye(4))"
)


def test_bounds_of_programs_are_audited_calibrated_and_explained(workspace: Workspace, tmp_path: Path) -> None:
    models = {"mlp": MODELS["mlp.py"], "pair": MODELS["pair.py"], "hard": module(HARD)}
    write_corpus(tmp_path, models)
    suite = tmp_path / "matrix" / "suites" / "twice.yaml"
    suite.parent.mkdir()
    suite.write_text(SUITE)
    cell, more = "pytorch/linalg-loops/x86_64", ("--catalog", tmp_path, "--format", "json")

    done = workspace("golden", "audit", f"{cell}/zoo:{{mlp,pair}}", "--seeds", "1", *more)
    assert done.code == 0, done.stdout + done.stderr
    summary = done.document["summary"]
    assert summary["caught"] >= 0.99 * summary["mattered"] > 50
    assert (summary["allowed_flagged"], summary["not_audited"], done.document["beyond_bound"]) == (0, 0, [])
    derived = next(each for each in done.document["layers"] if each["layer"].endswith(", derived"))
    assert 0 < derived["used"] < 0.5

    done = workspace("golden", "calibrate", f"{cell}/zoo:mlp", "--seeds", "10", *more)
    assert done.code == 0, done.stdout + done.stderr
    (layer,) = done.document["layers"]
    assert layer["layer"].endswith(", derived")
    assert 0 < layer["p50"] <= layer["largest"] < 0.5
    assert (layer["proposed"], layer["bounds"], done.document["patch"]) == (None, {}, "")
    assert "no file has it" in layer["why_not"]

    explained = workspace("golden", "explain", f"{cell}/zoo:hard", *more).document
    for output in explained["outputs"]:
        assert output["element_bounds"]["rationale"].startswith("derived: "), output
        assert "sampled" in output["element_bounds"]["rationale"]
        assert output["oracle"].startswith("The same module in float64. It shares its author with the program")
    told = workspace("explain", f"{cell}/zoo:hard", "--catalog", tmp_path).stdout
    assert "matrix/sources/torch-module/source.yaml:1:1 expects" in told

    report = workspace.run("twice", catalog=tmp_path)
    assert report.outcomes[f"{cell}/zoo:mlp~as-vectorized"] == "pass"


MASK = """\
    def __init__(self, width=32, window=8, longest=1024):
        super().__init__()
        self.a = nn.Linear(width, width)
        at = torch.arange(longest)
        self.register_buffer("mask", (at[:, None] - at).abs() > window)

    def forward(self, x):
        n = x.size(1)
        scores = (self.a(x) @ x.transpose(1, 2)).masked_fill(self.mask[:n, :n], float("-inf"))
        return scores.softmax(-1) @ x
"""
#: What is too large for a test, and the numbers that are made smaller.
SCALED = {
    # Too large by a number that stands only in the constructor.
    "window": (
        f"{HEAD}batch, seq = 4, 32\n\nclass Model(nn.Module):\n{MASK}\n"
        "def get_inputs():\n    return [torch.randn(batch, seq, 32)]\n",
        "longest from 1024 to 128",
    ),
    # The mask is as large as the input: a number in the constructor is equal to one at the top.
    "whole": (
        module(
            "return (x @ x.T).masked_fill(self.mask == 0, 0.0)",
            init="self.register_buffer('mask', torch.tril(torch.ones(1024, 1024)))",
            n="1024",
        ),
        "N from 1024 to 128, __init__ from 1024 to 128",
    ),
    # A number in a method is equal to one at the top.
    "method": (
        module("return (x @ x.T).view(1024, 1024).sum(1)", n="1024"),
        "N from 1024 to 256, forward from 1024 to 256",
    ),
    # Two numbers stay apart that are equal on the way.
    "apart": (
        f"{HEAD}S, D = 2048, 64\n\nclass Model(nn.Module):\n    def __init__(self, head=64, longest=8192):\n"
        "        super().__init__()\n        self.register_buffer('table', torch.rand(longest, head))\n\n"
        "    def forward(self, x):\n        return x * self.table[:x.size(0)]\n\n"
        "def get_inputs():\n    return [torch.rand(S, D)]\n",
        "S from 2048 to 512, D from 64 to 4, head from 64 to 4",
    ),
}
FAR = "at = torch.arange(N); {} = (at[:, None] - at).abs() > 500"
#: What says something else where it is small enough, and what it no longer depends on.
LOST = {
    "far": (
        module(
            "return (x @ x.T).masked_fill(self.far, 0.0)",
            init=FAR.format("far") + "; self.register_buffer('far', far)",
            n="1024",
        ),
        "buffer far",
    ),
    "plain": (
        module("return (x @ x.T).masked_fill(self.far, 0.0)", init=FAR.format("self.far"), n="1024"),
        "attribute far",
    ),
    "outside": (
        module("return (x @ x.T).masked_fill(FAR, 0.0)", more=FAR.format("FAR"), n="1024"),
        "global FAR",
    ),
    "slice": (module("return x @ x.T + x[700:].sum()", n="1024"), "a part of a tensor"),
    "unread": (
        module("return x @ x.T + y[300:].sum()", n="1024")
        .replace("forward(self, x)", "forward(self, x, y)")
        .replace("8)]", "8), torch.rand(N)]"),
        "input 1",
    ),
    "given": (
        module("return (x @ x.T).masked_fill(y, 0.0)", n="1024")
        .replace("forward(self, x)", "forward(self, x, y)")
        .replace("8)]", "8), (torch.arange(N)[:, None] - torch.arange(N)) > 500]"),
        "input 1",
    ),
}


MOST = "a test has at most 65536 elements, 0.01 billion operations and 600 calls of operators"
#: What stays too large, and what is said of it.
STUCK = {
    "never": (
        module("return x @ x.T").replace("torch.rand(N, 8)", "torch.rand(int('300'), int('2000'))"),
        f"the program has 690000 elements, 0.361 billion operations and 2 calls of operators; {MOST};"
        " no number in it can be made smaller; 'with: {elements: 690000, gflops: 0.361}' serves",
    ),
    "weight": (
        module(
            "return x @ x.T + self.w.sum()", init="self.w = nn.Parameter(torch.rand(int('600'), int('1200')))", n="512"
        ),
        f"the program has 986240 elements, 0.00446 billion operations and 4 calls of operators; {MOST};"
        " scaling ends at 787584 elements, 0.00112 billion operations and 4 calls of operators (N from 512 to 256);"
        " 'with: {elements: 787584}' serves",
    ),
    "index": (
        module("return (x @ x.T)[torch.tensor([5, 1000])]", n="1024"),
        "IndexError: index 1000 is out of bounds for dimension 0 with size 256; scaled: N from 1024 to 256",
    ),
}
#: Those of them that a larger test serves.
WIDER = "slice", "never", "weight"


def test_what_is_too_large_is_scaled_where_it_does_the_same(
    workspace: Workspace, catalog: Path, report: Report, tmp_path: Path
) -> None:
    cell = "pytorch/linalg-loops/x86_64"
    entries = {name: report.tests[f"{cell}/sizes:{name}"] for name in SCALED | LOST | STUCK}
    for name, (_, numbers) in SCALED.items():
        assert (entries[name]["outcome"], entries[name]["scaled"]) == ("pass", numbers), entries[name]
    for name, (_, lost) in LOST.items():
        assert (entries[name]["outcome"], entries[name]["reason"].partition("; ")[0]) == (
            "import-failed",
            f"the program no longer depends on {lost} where it is small enough for a test ({entries[name]['scaled']}):"
            " it reads nothing of that, or only equal elements",
        )
    for name, (_, reason) in STUCK.items():
        assert (entries[name]["outcome"], entries[name]["reason"]) == ("import-failed", reason)
    explained = workspace("explain", f"{cell}/sizes:window", "--catalog", catalog).stdout
    assert "scaled: longest from 1024 to 128" in explained
    explained = workspace("golden", "explain", f"{cell}/sizes:window", "--catalog", catalog).stdout
    assert "\nScaled, because the program is too large for a test: longest from 1024 to 128\n" in explained

    wide = tmp_path / "wide"
    shutil.copytree(catalog, wide)
    for name in WIDER:
        served = re.findall(r"'(with: \{.*?\})'", entries[name]["reason"])
        corpus = wide / "matrix" / "corpora" / name
        corpus.mkdir()
        text = CORPUS.replace("NAME", "sizes").replace(CORPUS.splitlines()[-1], *served)
        (corpus / "corpus.yaml").write_text(text)
    wider = workspace.run(f"{cell}/{{{','.join(f'{name}:{name}' for name in WIDER)}}}", catalog=wide)
    served = {name: wider.tests[f"{cell}/{name}:{name}"] for name in WIDER}
    assert {name: (each["outcome"], each.get("scaled")) for name, each in served.items()} == {
        "slice": ("pass", None), "never": ("pass", None), "weight": ("pass", "N from 512 to 256"),
    }  # fmt: skip


def near_zero() -> dict[str, str]:
    """Return models with values near a zero of a function."""
    texts = {
        name: module(f"return torch.{name}(x)").replace("rand(N, 8)", "randn(N, 8) * 1e-6")
        for name in ("expm1", "log1p")
    }
    # Where the numbers of float16 end, bounds are its last place.
    texts["half"] = module("return torch.expm1(x)").replace(GIVEN, "[(torch.randn(N, 8) * 1e-4).half()]")
    return texts


def test_near_a_zero_of_a_function_bounds_are_relative(report: Report) -> None:
    results = of_corpus(report, "zeros")
    assert len(results) == 2 * len(near_zero())
    # TOSA has neither: its lowering makes exp - 1 and log(1 + x).
    for test, result in results.items():
        assert result["outcome"] == ("mismatch" if "tosa" in test else "pass"), test


#: Programs that a pipeline of ours compiles wrongly, by the pipelines that do: what ``forward`` gives, and its arguments.
FAULTS = {
    "ceil_mode": ("torch.max_pool3d(x, 3, stride=2, ceil_mode=True)", "torch.randn(1, 2, 8, 8, 8)", {"stablehlo"}),
    "remainder": ("torch.remainder(x, -1.5)", "torch.rand(4, 8) * 9 + 1", {"stablehlo"}),
    "floor_divide": (
        "torch.floor_divide(x, 7)",
        "torch.randint(2**60, 2**62, (4, 8))",
        {"linalg", "stablehlo", "tosa"},
    ),
    "unsigned_max": ("torch.maximum(x, x.flip(0))", "torch.arange(256, dtype=torch.uint8)", {"tosa"}),
    "unsigned_amax": ("x.amax(0)", "torch.arange(256, dtype=torch.uint8).view(16, 16)", {"tosa"}),
    "unsigned_start": ("x.amax(1)", "torch.arange(256, dtype=torch.uint8).view(16, 16)", {"stablehlo"}),
}


def test_known_faults_of_compilers_are_found(report: Report) -> None:
    outcomes = {test: result["outcome"] for test, result in of_corpus(report, "faults").items()}
    assert outcomes == {
        f"pytorch/{dialect}-loops/x86_64/faults:{name}": "mismatch" if dialect in wrong else "pass"
        for name, (_, _, wrong) in FAULTS.items()
        for dialect in ("linalg", "stablehlo", "tosa")
    }


#: In float16 an element is infinite if it is more than 218 before the division, in PyTorch. XLA computes in float32.
OVERFLOW = module("return x * 300 / 300").replace(GIVEN, "[(torch.rand(N, 8) * 400).half()]")


def test_what_is_right_where_pytorch_itself_overflows_passes(report: Report) -> None:
    outcomes = {test: result["outcome"] for test, result in of_corpus(report, "overflow").items()}
    cells = ("torch-eager/torch-eager", "xla-cpu/xla-cpu")
    assert outcomes == {f"pytorch/{cell}/overflow:overflow": "pass" for cell in cells}


def test_what_programs_cannot_be_asked_is_said(workspace: Workspace) -> None:
    onnx = "onnx/linalg-loops/x86_64/onnx-nodes:test_abs"
    done = workspace("golden", "calibrate", onnx, "--seeds", "10")
    assert done.code == 2
    assert "a program in the form onnx-node has a single set of inputs" in done.stderr


RMS_NORM = "h = x.float(); h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)\n        return self.w * "
WEIGHT = "self.w = nn.Parameter(torch.rand(8, dtype=D))"
MASKED = "return torch.softmax(x @ x.T + torch.full((N, N), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1), -1)"
#: Programs that ask for the dtype of a tensor: its name in PyTorch, what ``forward`` does, and what the constructor.
OF_DTYPE = {
    "to_dtype": ("bfloat16", RMS_NORM + "h.to(x.dtype)", WEIGHT),
    "to_tensor": ("bfloat16", RMS_NORM + "h.to(x)", WEIGHT),
    "type_as": ("float16", RMS_NORM + "h.type_as(x)", WEIGHT),
    "constants": ("bfloat16", "return x * torch.tensor([0.1] * 8, dtype=x.dtype) + x.new_tensor([0.3] * 8)", "pass"),
    "table": ("bfloat16", "return x @ self.t", "self.t = torch.rand(8, 8).to(D)"),
    "finfo": ("bfloat16", "return x * torch.finfo(x.dtype).eps", "pass"),
    "masked": ("float16", MASKED, "pass"),
    "own_eps": ("bfloat16", "return nn.functional.rms_norm(x * 1e-3, (8,))", "pass"),
    "polynomial": ("bfloat16", "return torch.erf(x * 1e-6)", "pass"),
    "steps": ("bfloat16", "return torch.floor(x.exp() * 40)", "pass"),
    "times": ("bfloat16", "return torch.remainder(x.exp() * 40, 0.7)", "pass"),
    "choice": ("bfloat16", "return nn.functional.one_hot(torch.tanh(x * 9).argmax(-1), 8) * x", "pass"),
    "interpolated": (
        "bfloat16",
        "return nn.functional.interpolate(x[None, None], (9, 13), mode='bicubic', align_corners=True) ** 2",
        "pass",
    ),
    "masked_attention": (
        "bfloat16",
        "return self.a(x, x, x, attn_mask=torch.ones(N, N).triu(1) > 0)[0]",
        "self.a = nn.MultiheadAttention(8, 2).to(D).eval()",
    ),
}
#: Where a grid points: anywhere and over the border, or exactly at the elements.
GRIDS = {
    "border": "torch.rand(1, 9, 9, 2) * 2.2 - 1.1",
    "exact": "F.affine_grid(torch.eye(2, 3)[None], (1, 2, 16, 16), align_corners=A)",
}
#: Ways of numbers from a tensor to Python and back.
NUMBERS = {"tolist": "x.sum(1).tolist()", "item": "[x.sum().item()]"}


def own_dtype_models() -> dict[str, str]:
    """Return models of which PyTorch itself was once outside of the bounds, or the bounds were far too wide."""
    texts = {}
    for name, (dtype, body, init) in OF_DTYPE.items():
        text = module(body, init=init, more=f"D = torch.{dtype}")
        texts[name] = text.replace(GIVEN, "[torch.rand(N, 8).to(D)]")
    for name, grid in GRIDS.items():
        for aligned in (True, False):
            text = module("return F.grid_sample(x, y, align_corners=A)", more=f"A = {aligned}\nF = nn.functional")
            text = text.replace("(self, x)", "(self, x, y)")
            texts[f"{name}-{aligned}"] = text.replace(GIVEN, f"[torch.randn(1, 2, 16, 16), {grid}]")
    texts |= {name: module(f"return x * torch.tensor({text})", n="8") for name, text in NUMBERS.items()}
    return texts | dict(draw(3, seed=1))


def test_pytorch_itself_is_inside_the_bounds_of_each_program_in_its_own_dtype(
    workspace: Workspace, catalog: Path, report: Report
) -> None:
    results = of_corpus(report, "dtypes")
    assert {test["outcome"] for test in results.values()} == {"pass"}
    found = {test["workload"].removeprefix("dtypes:"): test["metrics"]["error_used"] for test in results.values()}
    assert found.keys() == own_dtype_models().keys()
    assert found["exact-False"] > 1e-3
    for name in NUMBERS:
        test = f"pytorch/torch-eager/torch-eager/dtypes:{name}"
        done = workspace("golden", "explain", test, "--catalog", catalog, "--format", "json")
        assert "because of Python numbers from a tensor" in done.document["outputs"][0]["element_bounds"]["rationale"]
