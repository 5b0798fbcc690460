"""Print a verdict as text: wrong elements of each output, the worst ones with their places, and sufficient bounds.

It uses only the standard library, and reads the JSON of the ``judge`` action. Lines are broken so that an indented report fits a
terminal of 80 columns. No line has more than 100 characters, except for long names.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from mlir_matrix.actions.runtime.prepared import OWN
from mlir_matrix.catalog.bounds import DERIVED
from mlir_matrix.compare.documents import Number

WIDTH = 76
_HEADINGS = ("element", "expected", "actual", "|error|", "rel. error", "ulp", "bound")
_BAR = 30
#: From this cosine on, the two outputs count as vectors of the same direction.
_ALIGNED = 0.999999
_INTEGERS = ("i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool")


def render(verdict: Mapping[str, Any]) -> str:
    """Return the census of every wrong output as text; one line for each right one."""
    outputs: Sequence[Mapping[str, Any]] = verdict.get("outputs", ())
    blocks = [_output(output) for output in outputs]
    return "\n\n".join("\n".join(block) for block in blocks) or str(verdict.get("reason", ""))


def _output(output: Mapping[str, Any]) -> list[str]:
    name = f"output {output['name']}" if output["name"] else ""
    name += f"{': ' if name else ''}{output['dtype']} {_shape(output['shape'])}" if "shape" in output else ""
    if "elements" not in output:
        return [f"{name}, {output['outcome']}", *_wrap(str(output["reason"]))]
    if not output["wrong"]:
        share = f"the worst error takes {_percent(output['error_used'])} of its bound"
        return [f"{name}, {output['outcome']}: all {output['elements']} elements are right; {share}"]
    lines = [
        f"{name}, {output['outcome']}: {output['wrong']} of {output['elements']} elements are wrong "
        f"({float(output['wrong_percent']):.3g} %)",
        *_kinds(output),
        *_wrap(str(output["where"]), "  where     "),
        *_wrap(str(output.get("looks", "")), "  looks     "),
        *_wrap(str(output["character"]), "  error     "),
        *_layer(output),
        *_needed(output),
        f"  largest   absolute {_number(output['max_abs'])}, relative {_number(output['max_rel'])}, "
        f"{_count(output['max_ulp'])} ulp{_budget(output)}",
        *_norms(output),
        "",
        *_table(output),
    ]
    if output["over_bound"]:
        lines += ["", "  absolute error of all elements", *_histogram(output["abs_decades"])]
        lines += _crossed(output, "atol", "relative", output["rel_decades_over_atol"])
        lines += _crossed(output, "rtol", "absolute", output["abs_decades_over_rtol"])
    return lines


def _kinds(output: Mapping[str, Any]) -> list[str]:
    words = (("over_bound", "over the bound"), ("nan_mismatches", "NaN"), ("inf_mismatches", "infinite"))
    kinds = [f"{output[key]} {what}" for key, what in words if output[key]]
    elements = max(1, output["elements"])
    alone = [
        f"{output[f'over_{name}']} ({_percent(output[f'over_{name}'] / elements)}) over {name}"
        for name, bound in (("atol", "atol"), ("rtol", "rtol"), ("ulp", "ulp_bound"))
        if output["compare"] != "exact" and output.get(bound) and not output.get("own_bounds")
    ]
    return ["  of these  " + ", ".join(kinds)] + (["  alone     " + ", ".join(alone)] if len(alone) > 1 else [])


def _budget(output: Mapping[str, Any]) -> str:
    used = output["error_used"]
    if output["compare"] == "exact" or not isinstance(used, (int, float)):
        return ""
    return f": {used:.3g} times its bound"


def _norms(output: Mapping[str, Any]) -> list[str]:
    """Return lines about the norms of the error, if they add something to the elements."""
    norms, cosine = output["norms"], output["cosine"]
    if output["dtype"] in _INTEGERS or output["elements"] < 2:
        return []
    words = ", ".join(
        f"{name} {_number(norms[key]['rel'])}" for name, key in (("L1", "l1"), ("L2", "l2"), ("max", "max"))
    )
    turned = [f"  cosine    {_exact(cosine)}"] if isinstance(cosine, float) and cosine < _ALIGNED else []
    return [f"  norms     of the error by those of what is expected: {words}", *turned]


def _crossed(output: Mapping[str, Any], bound: str, other: str, decades: Sequence[tuple[Number, int]]) -> list[str]:
    """Return the histogram of the other error for elements over one bound."""
    if not output.get(bound) or not decades or output.get("own_bounds"):
        return []
    return [f"  {other} error of those over {bound} {_number(output[bound])}", *_histogram(decades)]


def _layer(output: Mapping[str, Any]) -> list[str]:
    """Return the bound in numbers, as written, its position and its rationale."""
    if output["compare"] == "exact":
        return ["  bound     none: the elements must be equal"]
    ulp = f", or {_bound(output, 'ulp_bound')} ulp" if output.get("ulp_bound") is not None else ""
    bound = f"atol {_bound(output, 'atol')}, rtol {_bound(output, 'rtol')}"
    rationale = str(output.get("rationale", ""))
    if output.get("own_bounds") and output.get("atol_text") == OWN:
        bound = "each element has its own"
    elif output.get("own_bounds"):
        # The layer's rationale is about its atol and rtol, which hold for no element here.
        bound, rationale = DERIVED, ""
    return [
        f"  bound     {bound}{ulp}",
        *([f"  from      {output['layer']}"] if output.get("layer") else []),
        *_wrap(rationale, "  because   "),
    ]


def _bound(output: Mapping[str, Any], name: str) -> str:
    value, text = _number(output[name]), str(output.get(f"{name}_text", ""))
    return f"{value} = {text}" if text and text != str(output[name]) else value


def _needed(output: Mapping[str, Any]) -> list[str]:
    if output["atol_needed"] == "inf":
        return ["  to pass   no tolerance is enough: NaN and infinities must match"]
    if output["compare"] == "exact":
        return []
    if output.get("own_bounds"):
        return _wrap(_decided(output["worst"][0]), "  worst     ")
    atol, rtol = _up(output["atol_needed"]), _up(output["rtol_needed"])
    least = f"an rtol of at least {rtol}" if rtol != "inf" else "(no rtol: 0 is expected somewhere)"
    ulp = f", or {_count(output['ulp_needed'])} ulp" if output.get("ulp_bound") is not None else ""
    return [f"  to pass   an atol of at least {atol}, or {least}{ulp}"]


def _decided(worst: Mapping[str, Any]) -> str:
    """Return what decides if no tolerance of all elements does."""
    return (
        f"at {_shape(worst['index'])}: expected {_exact(worst['expected'])}, actual {_exact(worst['actual'])}, off by "
        f"{_number(worst['abs'])}, {_number(worst['used'])} times its bound of {_number(worst['bound'])}"
    )


def _table(output: Mapping[str, Any]) -> list[str]:
    rows = [_HEADINGS] + [
        (
            _shape(element["index"]),
            _exact(element["expected"]),
            _exact(element["actual"]),
            _number(element["abs"]),
            _number(element["rel"]),
            element["ulp"] if isinstance(element["ulp"], str) else _count(element["ulp"]),
            _number(element["bound"]),
        )
        for element in output["worst"]
        if element["wrong"]
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    after = " after sorting" if output["compare"] == "order-free" else ""
    title = f"  the worst {len(rows) - 1}{after}" if len(rows) > 2 else f"  the wrong element{after}"
    aligned = ([cell.rjust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    return [title, *("  " + "  ".join(cells) for cells in aligned)]


def _histogram(decades: Sequence[tuple[Number, int]]) -> list[str]:
    """Return one line per decade, with a bar; exact zeros and infinities have their own lines."""
    most = max((count for _, count in decades), default=1)
    lines = []
    for start, count in decades:
        label = "0" if start == 0 else "infinite" if start == "inf" else f"from {float(start):.0e}"
        lines.append(f"  {label:>10}  {count:>10}  {'#' * max(1, _BAR * count // most)}")
    return lines


def _wrap(text: str, first: str = "  ") -> list[str]:
    if not text:
        return []
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=" " * len(first), break_long_words=False)


def _shape(sizes: Sequence[int]) -> str:
    return f"[{', '.join(str(size) for size in sizes)}]"


def _number(value: object) -> str:
    """Round to three digits; integers and words stay unchanged."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _up(value: object) -> str:
    """Round up to three digits, so that the printed bound suffices."""
    if not isinstance(value, float) or value == 0:
        return str(value)
    text = f"{value:.2e}"
    if float(text) < value:
        digits, power = text.split("e")
        text = f"{float(digits) + 0.01:.2f}e{power}"
    return text


def _exact(value: object) -> str:
    """Print enough digits to distinguish all numbers of single precision."""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _count(value: Number) -> str:
    return str(int(value)) if isinstance(value, (int, float)) and value < 2**53 else f"{float(value):.3g}"


def _percent(share: Number) -> str:
    return f"{100 * float(share):.3g} %"
