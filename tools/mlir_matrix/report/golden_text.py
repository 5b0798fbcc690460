"""How a golden stands to what its reference gives now, as a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def update_line(row: Mapping[str, Any]) -> str:
    """A row of ``matrix golden update``, for people."""
    return _state(row) + _weak(row)


def _weak(row: Mapping[str, Any]) -> str:
    """What passes besides, though no program is needed for it; or that nothing does where the workload says why it may."""
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


def _state(row: Mapping[str, Any]) -> str:
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
    """In how many elements, and by how much at most."""
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
