"""Print ``matrix explain --oracles``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.text import Text

from mlir_matrix.base.layout import columns

if TYPE_CHECKING:
    from mlir_matrix.compare.documents import ComparedOutput
    from mlir_matrix.explain.documents import Oracles, Witness


def oracles_text(document: Oracles) -> Iterator[str]:
    """Return plain lines: the conclusion, the witnesses, and for each output pairs and disputed elements."""
    yield f"{document['id']}: {document['sentence']}"
    yield ""
    told = set[str]()
    rows = []
    for each in document["witnesses"]:
        # Once for each oracle, which may have many tests.
        why = "" if (oracle := each.get("oracle", "")) in told else oracle
        told.add(oracle)
        rows.append((each["name"], escape(each.get("test", "the golden")), escape(_said(each, why))))
    yield from _plain(columns(("", "", ""), rows)[1:])
    for output in document["outputs"]:
        yield from _output(output)


def _said(witness: Witness, why: str) -> str:
    if "unusable" in witness:
        return f"no outputs: {witness['unusable']}"
    return ": ".join(filter(None, (witness.get("outcome", ""), why)))


def _output(output: ComparedOutput) -> Iterator[str]:
    names = list(dict.fromkeys(name for pair in output["pairs"] for name in (pair["one"], pair["other"])))
    if not names:
        return
    sizes = "x".join(map(str, output["shape"])) or "scalar"
    bound = "exact" if output["compare"] == "exact" else f"atol {output['atol']:.3g}, rtol {output['rtol']:.3g}"
    bound = "a bound of each element" if output["own_bounds"] else bound
    yield ""
    yield f"{output['name']}, {output['dtype']} {sizes}, {bound}: elements that differ by more, and the largest difference"
    pairs = {
        (pair["one"], pair["other"]): f"{pair['differ'] or '='}, {float(pair['max_abs']):.3g}"
        for pair in output["pairs"]
    }
    rows = [(one, *(pairs.get((one, other), "") for other in names[1:])) for one in names[:-1]]
    yield from _indented(columns(("", *names[1:]), rows))
    if output["elements"]:
        yield "  largest differences" + (" after sorting" if output["compare"] == "order-free" else "")
        elements = [
            (escape(str(each["index"])), *(_value(each["values"][name]) for name in names))
            for each in output["elements"]
        ]
        yield from _indented(columns(("index", *names), elements))


def _value(value: object) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _plain(lines: list[str]) -> Iterator[str]:
    return (f"  {Text.from_markup(line).plain}".rstrip() for line in lines)


def _indented(lines: list[str]) -> Iterator[str]:
    return (f"  {line}" for line in _plain(lines))
