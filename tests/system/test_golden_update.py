"""Goldens made anew: large ones as sketches by which wrong kernels fail, what differs in numbers, and nothing by accident."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_matrix.actions.sandbox.isolation import CLEAN_ENVIRONMENT
from mlir_matrix.catalog.golden_files import RECORD
from support.downstream import WORKLOAD, Downstream, tree
from support.hostile import INNOCENT_MLIR
from support.workspace import REPOSITORY, Finished, Workspace

TEST = "mlir/linalg-loops/x86_64/wide"
DOCUMENT = """\
description: y = 1.5 x + b, an output of more than 1 MiB of doubles; every nineteenth column of b is infinite.
dims: {R: ROWS, C: 513}
inputs:
  x: {shape: [R, C], dtype: f32, formula: "normal(0, 1)", seed: 1}
  b: {shape: [C], dtype: f32, formula: "values(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, inf())"}
outputs:
  y: {shape: [R, C], dtype: f32}
"""
REFERENCE = "def reference(x, b):\n    return 1.5 * x + b\n"
KERNEL = """\
#id = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (c)>
func.func @main(%x: tensor<ROWSx513xf32>, %b: tensor<513xf32>) -> tensor<ROWSx513xf32> {
  %factor = arith.constant 1.5 : f32
  %off = arith.constant OFF : f32
  %zero = arith.constant 0.0 : f32
  %first = arith.constant FIRST : index
  %last = arith.constant LAST : index
  %width = arith.constant 513 : index
  %empty = tensor.empty() : tensor<ROWSx513xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : tensor<ROWSx513xf32>, tensor<513xf32>) outs(%empty : tensor<ROWSx513xf32>) {
  ^bb0(%xx: f32, %bb: f32, %out: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %begin = arith.muli %i, %width : index
    %place = arith.addi %begin, %j : index
    %from = arith.cmpi uge, %place, %first : index
    %to = arith.cmpi ule, %place, %last : index
    %hit = arith.andi %from, %to : i1
    %product = arith.mulf %xx, %factor : f32
    %sum = arith.addf %product, %bb : f32
    %other = arith.OTHER
    %result = arith.select %hit, %other, %sum : f32
    linalg.yield %result : f32
  } -> tensor<ROWSx513xf32>
  return %y : tensor<ROWSx513xf32>
}
"""
TOLERANCES = """\
layers:
  - atol: eps(f32)
    rtol: eps(f32)
    rationale: A product and a sum, each rounded.
"""


class Wide(Downstream):
    """A catalog with one large output."""

    def source(self, *, rows: int = 512, first: int = 1, last: int = 0, off: float = 0.0, cut: bool = False) -> None:
        """The kernel; elements ``first`` to ``last`` are ``off`` by so much or, ``cut``, 0."""
        other = "mulf %zero, %xx : f32" if cut else "addf %sum, %off : f32"
        text = KERNEL.replace("OTHER", other).replace("ROWS", str(rows)).replace("OFF", str(float(off)))
        text = text.replace("FIRST", str(first)).replace("LAST", str(last))
        self.write("matrix/workloads/wide/linalg.mlir", text)

    def describe(self, rows: int = 512, reference: str = REFERENCE, document: str = DOCUMENT) -> None:
        """What goes in and out, and what is right."""
        self.write("matrix/workloads/wide/workload.yaml", document.replace("ROWS", str(rows)))
        self.write("matrix/workloads/wide/reference.py", reference)

    @property
    def kept(self) -> set[str]:
        """The goldens that are there."""
        return {path.name for path in (self.root / "golden/wide").iterdir()} - {"tolerances.yaml", RECORD}


def begin(folder: Path) -> Wide:
    catalog = Wide(folder / "catalog")
    catalog.describe()
    catalog.source()
    catalog.write("golden/wide/tolerances.yaml", TOLERANCES)
    return catalog


@pytest.fixture
def wide(tmp_path: Path) -> Wide:
    return begin(tmp_path)


@pytest.fixture(scope="module")
def made(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Wide:
    """With its golden."""
    first = begin(tmp_path_factory.mktemp("made"))
    assert update(workspace, first, "--write").code == 0
    return first


@pytest.fixture
def ready(made: Wide, tmp_path: Path) -> Wide:
    """With its golden, to be changed."""
    shutil.copytree(made.root, tmp_path / "catalog")
    return Wide(tmp_path / "catalog")


def update(workspace: Workspace, catalog: Wide, *more: str) -> Finished:
    return workspace("golden", "update", "wide", *more, "--catalog", catalog.root)


def judged(workspace: Workspace, catalog: Wide, code: int) -> dict[str, Any]:
    return dict(workspace.run(TEST, code=code, catalog=catalog.root).tests[TEST])


def test_a_large_golden_is_a_sketch_and_what_is_right_passes(workspace: Workspace, wide: Wide) -> None:
    dry = update(workspace, wide)
    assert dry.code == 1
    assert wide.kept == set()
    done = update(workspace, wide, "--write")
    assert done.stdout.startswith("wide/y: is new, written as a sketch (")
    assert wide.kept == {"y.sketch.npy"}
    size = (wide.root / "golden/wide/y.sketch.npy").stat().st_size
    assert size < 0.02 * 8 * 512 * 513
    again = update(workspace, wide)
    assert (again.code, again.stdout) == (0, "wide/y: unchanged\n")
    test = judged(workspace, wide, 0)
    assert test["outcome"] == "pass"
    assert test["metrics"]["elements"] == 512 * 513
    assert 0 < test["metrics"]["error_used"] <= 1


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"first": 100_000, "last": 100_000, "off": 0.25}, ("1 of 65 blocks", "elements 98304 to 102399",
         "32 of 32 projections beyond", "as if one element were off by 0.25")),
        ({"first": 8192, "last": 12287, "off": 1e-3}, ("1 of 65 blocks", "elements 8192 to 12287 ([15, 497] to [23, 488])",
         "expected")),
        ({"first": 513 + 18, "last": 513 + 18, "cut": True}, ("1 of 65 blocks", "elements 0 to 4095 ([0, 0] to [7, 504])",
         "214 infinite, expected 215")),
    ],
    ids=["one element", "one block", "one infinity"],
)  # fmt: skip
def test_a_wrong_kernel_fails_by_it(
    workspace: Workspace, ready: Wide, tmp_path: Path, fault: dict[str, Any], words: tuple[str, ...]
) -> None:
    ready.source(**fault)
    results = tmp_path / "results.json"
    told = workspace("run", TEST, "--catalog", ready.root, "--quiet", "--results", results)
    (test,) = json.loads(results.read_text())["tests"]
    assert test["outcome"] == "mismatch"
    for each in words:
        assert each in test["reason"], test["reason"]
    assert test["verdict"]["outputs"][0]["sketch"]["wrong_blocks"] == 1
    assert told.code == 1
    assert words[1] in told.stdout


def test_what_differs_is_said_in_numbers(workspace: Workspace, ready: Wide) -> None:
    before = (ready.root / "golden/wide/y.sketch.npy").read_bytes()
    ready.describe(reference=REFERENCE.replace("+ b", "+ b + 0.125"))
    done = update(workspace, ready, "--format", "json")
    assert done.code == 1
    (row,) = done.document["outputs"]
    found = row["difference"]
    assert (row["state"], row["sketch"], row["written"]) == ("different", True, False)
    assert (found["blocks"], found["differing_blocks"]) == (65, 65)
    assert found["abs"] == pytest.approx(0.125, abs=1e-12)
    # All elements but the infinite ones are off by 1/8.
    assert found["norm"] == pytest.approx(0.125 * np.sqrt(512 * 513 * 18 / 19), rel=0.1)
    text = update(workspace, ready).stdout
    assert "wide/y: differs: 65 of 65 blocks, " in text
    assert "at most 0.125 (relative " in text
    assert (ready.root / "golden/wide/y.sketch.npy").read_bytes() == before


@pytest.mark.parametrize("rows", [512, 20], ids=["sketch", "whole"])
def test_what_the_references_rounding_explains_is_as_it_is(workspace: Workspace, ready: Wide, rows: int) -> None:
    ready.describe(rows=rows)
    assert update(workspace, ready, "--write").code == 0
    kept = sorted(path.read_bytes() for path in (ready.root / "golden/wide").glob("*.npy"))
    ready.describe(rows=rows, reference=REFERENCE.replace("1.5 * x", "0.1 * x + 1.4 * x"))
    done = update(workspace, ready, "--write")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"wide/y: unchanged except for rounding: {'65 of 65 blocks' if rows == 512 else ''}")
    assert sorted(path.read_bytes() for path in (ready.root / "golden/wide").glob("*.npy")) == kept
    (row,) = update(workspace, ready, "--format", "json").document["outputs"]
    assert (row["state"], row["written"]) == ("rounding", False)
    assert 0 < row["difference"]["rounding"] <= 1
    # The sum of one element is at most 1e-12 off; then no bound is known of what NumPy does.
    for wrong, share in (("1.5 * x + 1e-12", True), ("np.real(0.1 * x + 1.4 * x)", False)):
        ready.describe(rows=rows, reference=f"import numpy as np\n\n{REFERENCE.replace('1.5 * x', wrong)}")
        done = update(workspace, ready, "--format", "json")
        (row,) = done.document["outputs"]
        assert (done.code, row["state"]) == (1, "different")
        assert (row["difference"]["rounding"] or 0) > 1 if share else row["difference"]["rounding"] is None


def test_small_ones_are_whole_and_their_differences_are_exact(workspace: Workspace, ready: Wide) -> None:
    """What is no longer large is no longer a sketch."""
    ready.describe(rows=20)
    ready.source(rows=20)
    assert "is new" in update(workspace, ready).stdout
    assert ready.kept == {"y.sketch.npy"}
    assert update(workspace, ready, "--write").code == 0
    assert ready.kept == {"y.npy"}
    assert judged(workspace, ready, 0)["outcome"] == "pass"
    path = ready.root / "golden/wide/y.npy"
    golden = np.load(path)
    golden[3, 4] += 0.5
    golden[0, 18] = 7.0
    np.save(path, golden)
    done = update(workspace, ready)
    assert (
        "wide/y: differs: 2 of 10260 elements, at most inf (relative inf) at [0, 18]: was 7.0, is inf (" in done.stdout
    )
    golden[0, 18] = np.inf
    np.save(path, golden)
    (row,) = update(workspace, ready, "--format", "json").document["outputs"]
    assert (row["difference"]["differ"], row["difference"]["index"]) == (1, [3, 4])
    assert row["difference"]["abs"] == pytest.approx(0.5)
    np.save(path, golden.T)
    assert "differs: it was float64 [513, 20], is float64 [20, 513] (" in update(workspace, ready).stdout
    path.write_bytes(b"no array")
    assert "differs: it was not readable: " in update(workspace, ready).stdout


def test_a_reference_that_changed_makes_its_golden_stale(workspace: Workspace, ready: Wide) -> None:
    """It passed from the cache. The command that the error names mends it, and touches no golden that stays right."""
    assert judged(workspace, ready, 0)["outcome"] == "pass"
    golden, record = (ready.root / "golden/wide" / name for name in ("y.sketch.npy", RECORD))
    before = golden.stat()
    ready.describe(reference=f"# A comment.\n{REFERENCE}")
    refused = workspace("run", TEST, "--catalog", ready.root)
    command = f"matrix golden update --write wide --catalog {ready.root}"
    assert (refused.code, refused.stdout) == (2, "")
    assert (
        f"{record}:1:1: reference.py of wide changed since its goldens were written; run {command}\n" in refused.stderr
    )
    dry = workspace("golden", "update", "--catalog", ready.root)
    assert (dry.code, dry.stdout) == (1, "wide/y: unchanged; its record was out of date\n"), "no workload of ours"
    assert dry.stderr == f"nothing was written; {command.replace(' wide', '')} would\n"
    done = workspace(*shlex.split(command)[1:], "--format", "json")
    assert done.code == 0
    assert done.document["summary"] == {"outputs": 1, "stale": 0, "unrecorded": 1, "failures": 0}
    assert (golden.stat().st_mtime_ns, golden.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert judged(workspace, ready, 0)["outcome"] == "pass"
    ready.describe(document=DOCUMENT.replace("seed: 1", "seed: 2"))
    assert (
        f"{record}:1:1: reference.py and inputs of wide changed"
        in workspace("plan", TEST, "--catalog", ready.root).stderr
    )
    assert update(workspace, ready, "--write").stdout.startswith("wide/y: differs: ")
    assert judged(workspace, ready, 0)["outcome"] == "pass"


#: A reference, the line of its fault, and how its reason begins.
BROKEN = {
    "raises": ("def reference(x):\n    y = x\n    return y[99999]\n", 3, "IndexError: "),
    "shape": (
        "import numpy\n\ndef reference(x):\n    return x[1:]\n", 3, "output y: reference() returns the shape "
    ),
    "syntax": ("\ndef reference(x) return x\n", 2, "SyntaxError: "),
}  # fmt: skip


def test_a_broken_reference_is_an_error_of_the_catalog(workspace: Workspace, tmp_path: Path) -> None:
    catalog = Downstream(tmp_path / "catalog")
    places = {}
    for name, (reference, line, reason) in BROKEN.items():
        catalog.workload(name, reference=reference, linalg=INNOCENT_MLIR)
        places[name] = f"{catalog.root}/matrix/workloads/{name}/reference.py:{line}: {reason}"
    before = tree(catalog.root / "golden")
    done = workspace("golden", "update", "--write", *BROKEN, "--catalog", catalog.root)
    assert done.code == 2
    for place in places.values():
        assert f"\n{place}" in f"\n{done.stderr}", done.stderr
    assert tree(catalog.root / "golden") == before
    # Where its result is computed in each run, nothing under test has failed; an audit needs it, too.
    for name, (reference, _, _) in BROKEN.items():
        document = f"{WORKLOAD}golden: computed\n"
        catalog.workload(name, document=document, reference=reference, linalg=INNOCENT_MLIR)
        for file in ("y.npy", RECORD):
            (catalog.root / "golden" / name / file).unlink()
    tests = f"mlir/linalg-loops/x86_64/{{{','.join(BROKEN)}}}"
    report = workspace.run(tests, code=2, catalog=catalog.root)
    audited = workspace(
        "golden", "audit", tests, "--seeds", "1", "--mutations", "output-sign", "--catalog", catalog.root
    )
    assert audited.code == 2, audited.stderr
    for name, place in places.items():
        test = report.tests[f"mlir/linalg-loops/x86_64/{name}"]
        assert (test["outcome"], test["stage"], test["expected"]) == ("infra-error", "judge", False)
        assert test["reason"].startswith(place)
        assert place in audited.stdout


def test_a_golden_in_both_forms_gets_the_right_one(workspace: Workspace, ready: Wide) -> None:
    """An update that was killed left the form that is wrong now."""
    ready.write("golden/wide/y.npy", b"")
    refused = workspace("plan", "--catalog", ready.root)
    assert refused.code == 2
    assert "run matrix golden update --write wide" in refused.stderr
    assert update(workspace, ready).code == 1
    done = update(workspace, ready, "--write")
    assert done.code == 0
    assert "wide/y: is there in both forms, written as a sketch" in done.stdout
    assert not (ready.root / "golden/wide/y.npy").exists()
    assert workspace("plan", "--catalog", ready.root).code == 0


def test_a_damaged_sketch_is_no_pass_and_nobodys_expectation(workspace: Workspace, ready: Wide) -> None:
    path = ready.root / "golden/wide/y.sketch.npy"
    rows = np.load(path)
    np.save(path, rows[:-1])
    test = judged(workspace, ready, 2)
    assert test["verdict"]["outputs"][0]["measurable"] is False
    for words in ("has 64 blocks, not 65", "matrix golden update --write"):
        assert words in test["reason"]


def test_a_tree_that_would_be_too_large_is_not_written(workspace: Workspace, wide: Wide) -> None:
    wide.workload("large", jax="def workload(x):\n    return x * 2")
    large = wide.root / "golden/large/y.npy"
    large.write_bytes(bytes(20_000_000))
    done = update(workspace, wide, "--write")
    assert done.code == 2
    assert "more than 20000000; nothing was written; the largest is wide/y (" in done.stderr
    assert wide.kept == set()
    large.unlink()
    assert update(workspace, wide, "--write").code == 0


NAN = {
    "mixed": ("np.log(x - 1)", "", "returns NaN in 1 of 4 elements"),
    "said": ("np.log(x - 1)", ", nan: There is no logarithm of -1.", None),
    "other": ("x * np.nan", ", nan: There is no logarithm of -1.", "returns NaN in 4 of 4 elements"),
}


def test_nan_is_expected_where_the_workload_says_why(workspace: Workspace, tmp_path: Path) -> None:
    catalog = Downstream(tmp_path / "catalog")
    for name, (body, nan, _) in NAN.items():
        catalog.workload(
            name,
            document="description: Logarithms.\ninputs:\n  x: {shape: [4], dtype: f32, formula: iota()}\n"
            f"outputs:\n  y: {{shape: [4], dtype: f32{nan}}}\n",
            reference=f"import numpy as np\n\ndef reference(x):\n    return {body}\n",
            jax="import jax.numpy as jnp\n\ndef workload(x):\n    return jnp.log(x - 1)\n",
        )
        (catalog.root / "golden" / name / "y.npy").unlink()
    done = workspace("golden", "update", "--write", *NAN, "--catalog", catalog.root, "--format", "json")
    assert done.code == 2
    refused = {name: reason for name, (_, _, reason) in NAN.items() if reason is not None}
    assert {failure["workload"] for failure in done.document["failures"]} == refused.keys()
    for reason in refused.values():
        assert reason in done.stderr
    written = {name for name in NAN if (catalog.root / "golden" / name / "y.npy").exists()}
    assert written == {"said"}
    test = "jax/stablehlo-loops/x86_64/said"
    assert workspace.run(test, catalog=catalog.root).outcomes[test] == "pass"


#: None: as on this machine. The first is this CPU; one with AVX2 at most; one that has neither AVX nor FMA.
CPUS: dict[str, Mapping[str, str | None]] = {
    "own": {"OPENBLAS_CORETYPE": None, "NPY_DISABLE_CPU_FEATURES": None, "GLIBC_TUNABLES": None},
    "avx2": {
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
        "GLIBC_TUNABLES": None,
    },
    "sse3": {"OPENBLAS_CORETYPE": "Prescott"},
}
_OTHER = """
import json, sys
sys.path.insert(0, sys.argv.pop(1))
from mlir_matrix.actions.sandbox.isolation import CLEAN_ENVIRONMENT
for name, value in json.loads(sys.argv.pop(1)).items():
    CLEAN_ENVIRONMENT.pop(name)
    CLEAN_ENVIRONMENT.update({name: value} if value else {})
from mlir_matrix.cli.main import main
main()
"""


@dataclass(frozen=True)
class OtherCpu(Workspace):
    """The command line whose actions see other variables of the CPU than they do."""

    variables: Mapping[str, str | None] = field(default_factory=dict)

    def finish(self, words: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
        at = ["-P", "-s", "-c", _OTHER, str(REPOSITORY / "tools"), json.dumps(self.variables)]
        env = {**os.environ, **self.env}
        return subprocess.run(
            [sys.executable, *at, *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=900, check=False
        )  # fmt: skip


#: One for each function of NumPy, BLAS and the C library that differs between CPUs.
DIFFERING = ("attention", "cbrt", "frontier_fft", "frontier_qr", "gelu", "matmul", "softmax", "tanh")


@pytest.mark.parametrize("cpu", CPUS)
def test_no_cpu_has_goldens_of_its_own(workspace: Workspace, tmp_path: Path, cpu: str) -> None:
    features = set(Path("/proc/cpuinfo").read_text().split())
    if not {"avx2", "fma"} <= features and cpu != "sse3":
        pytest.skip("this CPU has not the features to play one that has")
    other = OtherCpu(workspace.home, cache=tmp_path / "actions", variables=CPUS[cpu])
    # All of them on the CPU that is least like those that goldens are made on.
    unpinned = other("golden", "update", *(() if cpu == "sse3" else DIFFERING))
    assert unpinned.code == 0, unpinned.stdout
    # Or else the variables decide nothing, and this shows nothing.
    assert "matmul/y: unchanged except for rounding: " in unpinned.stdout


def test_variables_of_the_person_decide_nothing(workspace: Workspace, tmp_path: Path) -> None:
    variables = {name: str(value) for name, value in CPUS["avx2"].items()} | {"OPENBLAS_CORETYPE": "Prescott"}
    assert variables.keys() <= CLEAN_ENVIRONMENT.keys()
    # One that calls BLAS, and one that calls functions of NumPy.
    command = ("golden", "update", "matmul", "tanh")
    done = Workspace(workspace.home, cache=tmp_path / "pinned", more=variables)(*command)
    assert (done.code, done.stdout) == (0, workspace(*command).stdout)


FAINT = "jax/stablehlo-loops/x86_64/faint"


def test_a_golden_that_lets_trivial_outputs_pass_is_told_and_refused_by_suites(
    workspace: Workspace, wide: Wide, tmp_path: Path
) -> None:
    """y = 2 x for x = 0, 1, 2, 3, within 4: the mean, 3, would do, and x itself."""
    results = tmp_path / "results.json"
    wide.workload("faint", jax="def workload(x):\n    return x * 2\n")
    wide.write("golden/faint/tolerances.yaml", "layers:\n  - {atol: 4, rtol: 0, rationale: X.}\n")
    wide.write("matrix/suites/loose.yaml", f"description: d\ninclude: [{FAINT}]\n")
    catalog = ("--catalog", wide.root)
    weak = ["the mean everywhere", "the input x"]
    (row,) = workspace("golden", "update", "faint", *catalog, "--format", "json").document["outputs"]
    layer = f"{wide.root}/golden/faint/tolerances.yaml:2:5"
    assert row["weak"] == [{"passes": weak, "layer": layer, "bounds": {"atol": "4", "rtol": "0"}}]
    told = f"faint/y: unchanged; weak: the mean everywhere and the input x would pass, too (atol 4, rtol 0, {layer})\n"
    assert workspace("golden", "update", "faint", *catalog).stdout == told

    def run(tests: str, code: int) -> tuple[dict[str, Any], str]:
        """Run the test; return its result, and what is printed."""
        done = workspace("run", tests, *catalog, "--quiet", "--results", results)
        assert done.code == code, done.stderr
        (test,) = json.loads(results.read_text())["tests"]
        return test, done.stdout

    test, text = run("loose", 0)
    assert (test["outcome"], test["weak"]) == ("pass", {"y": weak})
    assert "1 test passes but is weak" in text
    # Smoke has it, too, and wants none.
    test, text = run(FAINT, 1)
    assert (test["outcome"], test["expected"], test["cached"]) == ("mismatch", False, True)
    assert "the input x" in test["reason"]
    assert "matrix/suites/smoke.yaml:" in test["reason"]
    assert "kept: " in text

    document = wide.root / "matrix/workloads/faint/workload.yaml"
    document.write_text(document.read_text().replace("dtype: f32}", "dtype: f32, weak: A demonstration.}"))
    assert run(FAINT, 0)[0]["outcome"] == "pass"
    assert (
        "the workload says why that is right: A demonstration.\n"
        in workspace("golden", "update", "faint", *catalog).stdout
    )
