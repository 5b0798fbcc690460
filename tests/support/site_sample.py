"""A small site: three machines, a few hundred tests, three failures, evidence of two sides; names that try to be markup.

``PYTHONPATH=tools:tests python -m support.site_sample DIR`` writes it.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from mlir_matrix.base.text import at, milliseconds
from mlir_matrix.history.documents import FirstBadTest, RecordedRun, Today, TodayCause
from mlir_matrix.site.documents import SCHEMA, SiteManifest, SiteTrend
from mlir_matrix.site.pages import render_pages, static_files

FRAMEWORKS = ("pytorch", "jax", "onnx", "mlir")
PIPELINES = ("linalg-loops", "linalg-named", "linalg-tiled", "tosa-loops", "stablehlo-loops", "transform-tiled")
TARGETS = ("x86_64", "aarch64", "riscv64", "wasm32")
WORKLOADS = (
    "mlp",
    "softmax",
    "attention",
    "conv2d",
    "matmul",
    "layernorm",
    "scatter-add",
    "topk",
    "gelu",
    "reduce-sum",
    "transpose",
    "embedding",
    "matmul~scaling",
    "fft",
)
SERIES = ({"host": "build-1", "pins": ""}, {"host": "build-2", "pins": "llvm=22"}, {"host": "riscv-board", "pins": ""})
#: A name that a hostile catalog or a hostile database could have.
HOSTILE = "<img src=x onerror=alert(1)>\u202egnp.exe\u0000</script><script>alert(2)</script>"
FAILING = "pytorch/linalg-tiled/x86_64/softmax"
LATER = "2026-11-27T04:12:00.000Z"
BUILT = "2026-11-27T06:00:00.000Z"
_DAYS = 40
_KINDS = (
    '<svg class="kinds" viewBox="0 0 300 60" width="300" role="group" aria-label="kinds"><a href="#step/bufferize">'
    '<text x="150" y="30">linalg-tensor → bufferize → linalg-memref</text></a></svg>'
)
_GOOD_IR = """\
func.func @main(%arg0: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %cst = arith.constant 0xFF800000 : f32
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  %2 = linalg.reduce { arith.maximumf } ins(%arg0 : tensor<4x64xf32>) outs(%1 : tensor<4xf32>) dimensions = [1]
  %3 = scf.forall (%i) in (4) shared_outs(%o = %0) -> (tensor<4xf32>) {
    %slice = tensor.extract_slice %arg0[%i, 0] [1, 64] [1, 1] : tensor<4x64xf32> to tensor<1x64xf32>
  }
  return %arg0 : tensor<4x64xf32>
}
"""
_BAD_IR = _GOOD_IR.replace("arith.maximumf", "arith.maxnumf").replace("[1, 64] [1, 1]", "[1, 32] [1, 2]")


def tests() -> list[tuple[int, int, int, int]]:
    """Return the indices of framework, pipeline, target and workload of each test."""
    return [
        (f, p, t, w)
        for f in range(len(FRAMEWORKS))
        for p in range(len(PIPELINES))
        for t in range(len(TARGETS))
        for w in range(len(WORKLOADS))
        if (f + p) % 3 != 1
    ]


def name(test: tuple[int, int, int, int]) -> str:
    f, p, t, w = test
    return f"{FRAMEWORKS[f]}/{PIPELINES[p]}/{TARGETS[t]}/{WORKLOADS[w]}"


def letter(test: tuple[int, int, int, int], series: int) -> str:
    """Return how a test ended: tiled softmaxes are wrong, and the board cannot run most targets."""
    f, p, t, w = test
    if series == 2 and TARGETS[t] != "riscv64":
        return " "
    if PIPELINES[p].endswith("tiled") and WORKLOADS[w] in {"softmax", "attention"} and TARGETS[t] == "x86_64":
        return "M"
    if PIPELINES[p] == "tosa-loops" and WORKLOADS[w] == "topk":
        return "l"
    if FRAMEWORKS[f] == "onnx" and WORKLOADS[w] == "fft":
        return "L" if series == 1 else "-"
    if TARGETS[t] == "wasm32" and WORKLOADS[w] == "conv2d" and series == 0:
        return "C"
    return "-" if (f * 7 + p * 5 + t * 3 + w) % 29 == 0 else "."


def _run(day: int, series: int) -> dict[str, Any]:
    started = milliseconds(BUILT) - (_DAYS - day) * 86_400_000 + 80_000_000 - 7_000_000 * (2 - series)
    return {
        "id": f"{day:08x}{series:08x}{'0f' * 8}",
        "series": series,
        "started": at(started * 10**6),
        "last_seen": at((started + 900_000) * 10**6),
        "version": "0.9.0",
        "command": "matrix run nightly",
        "catalogs": [{"folder": "/lab/compiler", "commit": f"{0xBEC6106E8 + day * 7919:09x}", "dirty": False}],
        "interrupted": False,
        "tests": 900,
        "unexpected": 40,
        "repeats": 0,
    }


def manifest(files: dict[str, str]) -> SiteManifest:
    runs: Any = [_run(day, series) for day in range(_DAYS) for series in range(len(SERIES))]
    return {
        "schema": SCHEMA,
        "version": "0.9.0",
        "built": BUILT,
        "series": [*SERIES],
        "runs": runs,
        "files": files,
    }


def today() -> Today:
    """Return a morning with one new cause on two machines, an older one and a fixed one."""
    bad = [name(test) for test in tests() if letter(test, 0) == "M"]
    onnx = [name(test) for test in tests() if letter(test, 1) == "L"]
    wasm = [name(test) for test in tests() if letter(test, 0) == "C"]
    places = [("build-1", ""), ("build-2", "llvm=22")]
    return {
        "schema": "mlir-matrix/history-today/v1",
        "database": "sqlite:///history.sqlite",
        "since": "2026-11-26T06:00:00.000Z",
        "until": BUILT,
        "summary": {
            "runs": 3,
            "new": len(bad),
            "new_causes": 1,
            "changed": 0,
            "fixed": 3,
            "still": len(onnx) + len(wasm),
            "trouble": 0,
            "flaky": 1,
            "slower": 1,
        },
        "machines": [
            {
                "host": "build-1",
                "pins": "",
                "runs": 1,
                "last_run": LATER,
                "tests": 896,
                "unexpected": len(bad) + len(wasm),
                "new": len(bad),
            },
            {
                "host": "build-2",
                "pins": "llvm=22",
                "runs": 1,
                "last_run": "2026-11-27T04:31:00.000Z",
                "tests": 896,
                "unexpected": len(bad) + len(onnx),
                "new": len(bad),
            },
            {
                "host": "riscv-board",
                "pins": "",
                "runs": 1,
                "last_run": "2026-11-27T05:02:00.000Z",
                "tests": 224,
                "unexpected": 0,
                "new": 0,
            },
        ],
        "new": [
            _cause(
                "tile-reductions: y: wrong elements, in every row",
                "recipes/steps/tile-reductions/step.yaml",
                bad,
                places,
                LATER,
                ["*/{linalg-tiled,transform-tiled}/x86_64/{attention,softmax}"],
            )
        ],
        "changed": [],
        "trouble": [],
        "still": [
            _cause(
                f"{HOSTILE}: the importer refuses the operator",
                "",
                onnx,
                [places[1]],
                "2026-11-20T02:15:00.000Z",
                ["onnx/**/fft"],
            ),
            _cause(
                "wasm-ld crashes: SIGSEGV in lld::wasm::writeResult",
                "matrix/targets/wasm32/target.yaml",
                wasm,
                [places[0]],
                "2026-11-12T02:15:00.000Z",
                ["**/wasm32/conv2d"],
            ),
        ],
        "fixed": [
            _cause(
                "bufferize: its IR test tm-tensor fails: the IR does not parse",
                "recipes/steps/bufferize/step.yaml",
                ["jax/linalg-loops/x86_64/mlp"] * 3,
                [places[1]],
                "",
                ["jax/linalg-loops/x86_64/mlp"],
            )
        ],
        "flaky": [
            {
                "id": "jax/stablehlo-loops/x86_64/topk",
                "executions": 41,
                "differing": 3,
                "rate": 0.07,
                "interval": [0.02, 0.19],
                "behaviours": [],
                "last_run": LATER,
            }
        ],
        "slower": [
            {
                "id": "pytorch/linalg-loops/x86_64/matmul",
                "host": "build-1",
                "cost": "instructions",
                "before": 1e6,
                "after": 1.3e6,
                "factor": 1.3,
                "interval": [1.3, 1.3],
            }
        ],
        "notes": ["build-7: no run since 2026-11-24 02:15"],
    }


def _cause(
    title: str, file: str, named: list[str], places: list[tuple[str, str]], since: str, globs: list[str]
) -> TodayCause:
    first = {"id": "c394b19b7663aa", "version": "0.9.0", "started": since, "last_seen": since}
    good = {
        "id": "2863491583efbb",
        "version": "0.9.0",
        "started": "2026-11-26T02:15:00.000Z",
        "last_seen": "2026-11-26T04:02:00.000Z",
    }
    commits = [{"folder": "/lab/compiler", "good": "bec6106e8aa", "bad": "5e7b12adabb", "dirty": False}]
    found: FirstBadTest = {
        "id": named[0],
        "behaviour": "mismatch",
        "last_good": cast_run(good),
        "first_bad": cast_run(first),
        "commits": commits,
        "pins": {},
        "inputs_differ": True,
        "bisect": "",
        "bisect_notes": [],
    }
    next_one = f"tools/matrix bisect --steps {named[0]}"
    return {
        "key": title,
        "title": title,
        "file": file,
        "tests": named,
        "globs": globs,
        "example": named[0],
        "next": next_one,
        "flaky": 0,
        "places": [
            {"host": host, "pins": pins, "tests": len(named), "first_bad": found if since else None}
            for host, pins in places
        ],
    }


def cast_run(values: dict[str, Any]) -> RecordedRun:
    return values


def documents() -> dict[str, Any]:
    """Return all documents of the site by name."""
    all_tests, rng = tests(), random.Random(7)
    columns = list(zip(*all_tests, strict=True))
    found: dict[str, Any] = {
        "tests": {
            "frameworks": FRAMEWORKS,
            "pipelines": PIPELINES,
            "targets": TARGETS,
            "workloads": WORKLOADS,
            "releases": [""],
            "framework": columns[0],
            "pipeline": columns[1],
            "target": columns[2],
            "workload": columns[3],
            "release": [0] * len(all_tests),
        },
        "latest/outcome": {"series": ["".join(letter(test, series) for test in all_tests) for series in range(3)]},
    }
    for column, most in {"error": 40, "seconds": 60, "age": 9, "since": 40}.items():
        texts = [
            "".join(" " if letter(test, series) in " -" else chr(33 + rng.randint(0, most)) for test in all_tests)
            for series in range(3)
        ]
        found[f"latest/{column}"] = {"series": texts}
    for test in all_tests:
        cell = name(test).rpartition("/")[0]
        document = found.setdefault(
            f"cell/{cell}",
            {
                "behaviours": [
                    ["pass", "", ""],
                    ["mismatch", "judge", "y: 37 of 256 elements are wrong, in every row"],
                    ["lower-failed", "lower", HOSTILE],
                ],
                "pins": [{"llvm": "22.1.8"}],
                "tests": {},
            },
        )
        document["tests"][name(test)] = [
            _line(letter(test, series), series, rng) for series in range(3) if letter(test, series) != " "
        ]
        routes = found.setdefault(f"routes/{cell}", {"tests": {}})
        routes["tests"][name(test)] = _route(test)
    found |= {f"ir/{digest}": text for digest, text in (("a1", _GOOD_IR), ("b2", _BAD_IR), ("c3", "module {\n}\n"))}
    found[f"evidence/{FAILING}"] = _evidence()
    routes_of = [[f, p, t] for f in FRAMEWORKS for p in PIPELINES for t in TARGETS]
    answers = [
        "".join("yyyycwxfun- "[(row * 5 + column * 3) % 12] for column in range(len(routes_of)))
        for row in range(len(WORKLOADS))
    ]
    holes = {
        f"{row} {column}": {
            "answer": "no",
            "reason": f"jax emits stablehlo; {PIPELINES[column % 6]} takes tosa or torch" if mark == "-" else HOSTILE,
            "test": FAILING,
            "stage": "lower",
            "position": "recipes/pipelines/tosa-loops.yaml:4:1",
        }
        for row, text in enumerate(answers)
        for column, mark in enumerate(text)
        if mark in "wxfun-"
    }
    found["support/workload"] = {"rows": WORKLOADS, "columns": routes_of, "answers": answers, "holes": holes}
    found["catalog"] = catalog()
    return found


def _line(last: str, series: int, rng: random.Random) -> dict[str, Any]:
    runs = list(range(series, 3 * _DAYS, 3))
    behaviour = {"M": 1, "L": 2, "C": 2, "l": 2}.get(last, 0)
    state = 0 if last.isupper() else 1
    segments = [{"behaviour": 0, "state": 1, "first": runs[0], "last": runs[-2], "runs": len(runs) - 1, "pins": 0}]
    segments += [{"behaviour": behaviour, "state": state, "first": runs[-1], "last": runs[-1], "runs": 1, "pins": 0}]
    return {
        "series": series,
        "segments": segments,
        "runs": runs,
        "ms": [rng.randint(300, 360) + (90 if run > 80 else 0) for run in runs],
        "error": [round(0.2 + 0.01 * index, 3) for index in range(len(runs))],
        "costs": [[runs[0], {"instructions": 123456, "code_bytes": 2048}]],
        "changes": [{"metric": "seconds", "run": runs[27], "before": 0.33, "after": 0.42}],
    }


def _route(test: tuple[int, int, int, int]) -> dict[str, Any]:
    f, p, _, w = test
    made: dict[str, Any] = {
        "steps": [
            [FRAMEWORKS[f], "torch"],
            ["torch-to-linalg", "linalg-tensor"],
            ["tile-reductions", "linalg-tensor"],
            ["bufferize", "linalg-memref"],
            ["loops-to-llvm", "llvm"],
        ],
        "environments": {"mlir": {"llvm": "22.1.8"}, "torch": {"torch": "2.13.0", "torch-mlir": "20261001"}},
        "bounds": [
            {
                "output": "y",
                "dtype": "f32",
                "bound": "4 ulp + 1e-6",
                "layers": [["golden/tolerances.yaml:12:3", "f32 with sqrt(K) rounding errors"]],
            }
        ],
        "position": f"matrix/workloads/{WORKLOADS[w]}/workload.yaml:1:1",
    }
    if PIPELINES[p] == "tosa-loops":
        made |= {
            "unsupported": "tosa-loops has no topk",
            "expectation": ["lower-failed", "no TOSA operator", "matrix/suites/nightly.yaml:8:5"],
        }
    return made


def _evidence() -> dict[str, Any]:
    steps = ("pytorch", "torch-to-linalg", "tile-reductions", "bufferize")

    def side(role: str, run: int, digests: tuple[str, ...]) -> dict[str, Any]:
        of = _run(run, 0)
        stages = [
            {"step": step, "digest": digest, "bytes": 900 + len(digest), "document": f"ir/{digest}"}
            for step, digest in zip(steps, digests, strict=False)
        ]
        return {"role": role, "series": 0, "run": of["id"], "started": of["started"], "stages": stages}

    bad = side("bad", 39, ("c3", "a1", "b2", "b2"))
    worst = {
        "name": "y",
        "outcome": "mismatch",
        "reason": "37 elements are wrong",
        "elements": 256,
        "wrong": 37,
        "max_abs": 0.25,
        "error_used": 1834.5,
        "where": "columns 32 to 63 of every row",
    }
    bad |= {
        "entry": {
            "verdict": {"outcome": "mismatch", "reason": "", "outputs": [worst]},
            "next": f"tools/matrix bisect --steps {FAILING}",
        },
        "diagnostics": f"step.mlir:5:8: error: {HOSTILE}\n",
        "log": "x" * 2_000_000,
        "commands": "mlir-opt --tile-reductions=size=32 in.mlir -o out.mlir\n",
        "pictures": [["y", "data/y.svg"]],
    }
    return {
        "test": FAILING,
        "sides": [side("good", 38, ("c3", "a1", "a1", "a1")), bad],
        "reports": [["Bisection over steps", "tile-reductions is the first wrong step."]],
    }


def catalog() -> Any:
    position = "recipes/steps/bufferize/step.yaml:1:1"
    entry = {
        "description": "Replaces tensors by memrefs.",
        "position": position,
        "url": "https://github.com/llvm/mlir-matrix/blob/main/recipes/steps/bufferize/step.yaml",
        "takes": ["linalg-tensor"],
        "gives": ["linalg-memref"],
    }
    parts = {
        "framework": FRAMEWORKS,
        "step": ("bufferize", "tile-reductions"),
        "pipeline": PIPELINES,
        "target": TARGETS,
        "workload": WORKLOADS,
    }
    return {"parts": {part: dict.fromkeys(names, entry) for part, names in parts.items()}}


def trends() -> list[SiteTrend]:
    rng = random.Random(3)
    found: list[SiteTrend] = []
    metrics: Any = ("seconds", "instructions", "code_bytes", "compile_s", "error")
    for index, metric in enumerate(metrics * 3):
        before, factor = (
            rng.uniform(0.1, 2.0) * (1 if metric in {"seconds", "compile_s", "error"} else 100_000),
            rng.uniform(0.6, 1.9),
        )
        values = [before * (factor if day >= 25 else 1) * rng.uniform(0.97, 1.03) for day in range(_DAYS)]
        found.append(
            {
                "test": name(tests()[index * 31]),
                "series": 0,
                "factor": factor,
                "runs": list(range(0, 3 * _DAYS, 3)),
                "values": values,
                "change": {"metric": metric, "run": 75, "before": before, "after": before * factor},
            }
        )
    return found


def best() -> Any:
    def contestant(pipeline: str, time_ns: float, size: float, **more: Any) -> dict[str, Any]:
        return {
            "test": f"pytorch/{pipeline}/x86_64/mlp",
            "framework": "pytorch",
            "pipeline": pipeline,
            "values": {"time_ns": time_ns, "code_bytes": size},
            **more,
        }

    contest = {
        "workload": "mlp",
        "target": "x86_64",
        "criteria": ["time_ns", "code_bytes"],
        "noise": {"time_ns": 0.02},
        "not_compared": {"error": "no bound"},
        "best": [
            contestant("linalg-tiled", 8123.0, 4096, first_in=["time_ns"]),
            contestant("linalg-loops", 9500.0, 2048, first_in=["code_bytes"]),
        ],
        "beaten": [
            contestant(
                "tosa-loops", 12000.0, 4500, by="pytorch/linalg-tiled/x86_64/mlp", better_in=["time_ns", "code_bytes"]
            )
        ],
        "failing": {"pytorch/stablehlo-loops/x86_64/mlp": "mismatch: y: 3 elements are wrong"},
    }
    return {"schema": "mlir-matrix/best/v1", "summary": {}, "contests": [contest]}


def write(folder: Path, *, full: bool = True) -> None:
    """Write the site; without ``full``, one of a history alone: no catalog, no evidence, no costs."""
    (folder / "data").mkdir(parents=True)
    (folder / "static").mkdir()
    found = (
        documents()
        if full
        else {key: value for key, value in documents().items() if key.startswith(("tests", "latest/outcome", "cell/"))}
    )
    files = {}
    for index, (key, value) in enumerate(found.items()):
        files[key] = f"data/{index}.js"
        (folder / files[key]).write_text(_call(key, value), encoding="utf-8")
    made = manifest(files)
    (folder / "data" / "manifest.js").write_text(_call("manifest", made), encoding="utf-8")
    (folder / "data" / "y.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="64" height="4"/>', encoding="utf-8"
    )
    static = {}
    for file, data in static_files().items():
        static[file] = f"static/{file}"
        (folder / static[file]).write_bytes(data)
    more: dict[str, Any] = {"trends": trends(), "best": best(), "catalog": catalog(), "kinds": _KINDS} if full else {}
    for page, text in render_pages(today(), made, "data/manifest.js", static, **more).items():
        (folder / page).write_text(text, encoding="utf-8")


def _call(key: str, value: object) -> str:
    return f"matrix.put({json.dumps(key)},{json.dumps(value)});\n"


if __name__ == "__main__":
    write(Path(sys.argv[1]))
