"""Pages of real runs: a test goes bad, and the site has what each step gave before and after."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.downstream import Downstream
from support.hostile import INNOCENT_MLIR
from support.workspace import Workspace

TEST = "mlir/linalg-loops/x86_64/doubled"


def read(file: Path) -> Any:
    call = file.read_text("ascii")
    return json.loads(call.removeprefix("matrix.put(").removesuffix(");\n").join("[]"))[1]


def documents(site: Path) -> dict[str, Any]:
    """Return the documents that the first page names."""
    page = (site / "index.html").read_text()
    start = page.index("data/manifest-")
    files = read(site / page[start : page.index(".js", start) + 3])["files"]
    return {name: read(site / path) for name, path in files.items() if path.endswith(".js")}


def test_both_sides_of_a_failure_have_their_ir(fresh: Callable[[str], Workspace], tmp_path: Path) -> None:
    workspace, catalog, pages = fresh("home"), Downstream(tmp_path / "catalog"), tmp_path / "site"
    words = ("run", TEST, "--catalog", catalog.root, "--quiet")
    catalog.workload("doubled", linalg=INNOCENT_MLIR)
    assert workspace(*words).code == 0
    catalog.workload("doubled", linalg=INNOCENT_MLIR.replace("arith.addf %e, %e", "arith.mulf %e, %e"))
    assert workspace(*words, "--html", tmp_path / "one").code == 1
    # Of one run, the pages have one side.
    (side,) = documents(tmp_path / "one")[f"evidence/{TEST}"]["sides"]
    assert (side["role"], side["entry"]["verdict"]["outputs"][0]["wrong"]) == ("bad", 2)
    done = workspace("report", "html", "--out", pages)
    assert (done.code, done.stdout.startswith(f"{pages / 'index.html'}: ")) == (0, True)
    found = documents(pages)
    bad, good = found[f"evidence/{TEST}"]["sides"]
    steps = [stage["step"] for stage in bad["stages"]]
    assert steps == [stage["step"] for stage in good["stages"]]
    assert (steps[0], steps[-1]) == ("import", "loops-to-llvm")
    for stages, present, absent in ((bad, "arith.mulf", "arith.addf"), (good, "arith.addf", "arith.mulf")):
        text = found[stages["stages"][0]["document"]]
        assert present in text
        assert absent not in text
    assert (bad["entry"]["outcome"], [name for name, _ in bad["pictures"]]) == ("mismatch", ["y"])
    assert "mlir-opt" in bad["commands"]
