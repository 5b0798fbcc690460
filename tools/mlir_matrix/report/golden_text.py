"""Show the difference between a golden and its reference as a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.golden import GoldenOutput


def update_line(row: GoldenOutput) -> str:
    """Return the line of an output for ``matrix golden update``."""
    is_kept = row["state"] in ("same", "rounding")
    return _state(row) + ("; its record was out of date" if is_kept and not row["recorded"] else "") + _weak(row)


def _weak(row: GoldenOutput) -> str:
    """Return the trivial outputs that also pass, or that none does although the workload states a reason."""
    reason = row["weak_reason"]
    if not row["weak"]:
        return "; its reason for being weak is idle: no trivial output passes" if reason else ""
    parts = []
    for entry in row["weak"]:
        bounds = "".join(f"{key} {text}, " for key, text in entry["bounds"].items())
        parts.append(f"{' and '.join(entry['passes'])} would pass, too ({bounds}{entry['layer']})")
    return f"; weak: {'; '.join(parts)}" + (
        f"; the workload says why that is right: {reason.strip()}" if reason else ""
    )


def _state(row: GoldenOutput) -> str:
    name = f"{row['workload']}/{row['output']}"
    if row["state"] == "same":
        return f"{name}: as it is"
    if row["state"] == "rounding":
        return f"{name}: as it is, to rounding{_difference(row['difference'])}"
    written = ", written" if row["written"] else ""
    form = " as a sketch" if row["sketch"] else ""
    size = f"{written}{form if written else ''} ({row['bytes']} bytes{'' if written or not form else ', as a sketch'})"
    if row["state"] == "new":
        return f"{name}: is new{size}"
    return f"{name}: differs{_difference(row['difference'])}{size}"


def _difference(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    if "changed" in found:
        return f": it {found['changed']}"
    what = "elements that are kept" if "blocks" in found else "elements"
    parts = [f"{found['differ']} of {found['elements']} {what}"]
    if found["index"] is not None:
        parts.append(
            f"at most {_number(found['abs'])} (relative {_number(found['rel'])}) at {found['index']}: "
            f"was {found['old']}, is {found['new']}"
        )
    if "blocks" in found:
        parts.insert(0, f"{found['differing_blocks']} of {found['blocks']} blocks")
        parts.append(f"all together by {_number(found['norm'])} (Euclidean norm, by its projections)")
    elif not found["differ"]:
        parts = ["in how it is written, not in its numbers"]
    return ": " + ", ".join(parts)


def _number(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"
