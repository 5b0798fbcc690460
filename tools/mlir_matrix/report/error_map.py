"""The map of the error beside a failed test's files: one ``error-NAME.svg`` for each output that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlir_matrix.errors import MatrixError


def draw_errors(folder: Path, verdict: Mapping[str, Any], arrays: Mapping[str, Path]) -> None:
    """Draw what a verdict says is wrong; ``arrays``: the files by the names of the judge's inputs (``actual-y``, ``expected-y``).

    What cannot be drawn (sorted outputs, sketches, files that are no arrays) is left out: the census says what is wrong.
    """
    for output in verdict.get("outputs", ()):
        files = [arrays.get(f"{side}-{output['name']}") for side in ("actual", "expected")]
        if output.get("wrong") and output.get("compare") in ("numeric", "exact") and "norms" in output and all(files):
            _draw(folder / f"error-{output['name']}.svg", output, *[file for file in files if file])


def _draw(path: Path, output: Mapping[str, Any], actual: Path, expected: Path) -> None:
    # Only a failure needs NumPy here.
    from mlir_matrix.actions.numerics.criteria import Criteria
    from mlir_matrix.compare.arrays import compare_arrays
    from mlir_matrix.compare.files import ArrayFile, read
    from mlir_matrix.compare.rules import Rules

    exact = output["compare"] == "exact"
    ulp = output.get("ulp_bound")
    criteria = Criteria(
        atol=0.0 if exact else float(output["atol"]),
        rtol=0.0 if exact else float(output["rtol"]),
        max_ulp=None if ulp is None else float(ulp),
    )
    try:
        left, right = read(actual), read(expected)
        if isinstance(left, ArrayFile) and isinstance(right, ArrayFile):
            kind, name = str(output["dtype"]), str(output["name"])
            found = compare_arrays(
                left.values, right.values, Rules(criteria=criteria), dtype=kind, golden=True, name=name
            )
            found.picture(path)
    except (MatrixError, OSError, ValueError):
        return
