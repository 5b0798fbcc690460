"""The page of kinds and its picture: up to date, and drawn without overlaps."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from mlir_matrix.environments.session import Session
from mlir_matrix.site.kind_graph import draw
from support.kinds_page import DOCS, known_rows, page, picture


def test_the_page_is_up_to_date(current: Session) -> None:
    """Make it anew by ``python -m support.kinds_page``."""
    kept = (DOCS / "kinds.md").read_text(encoding="utf-8")
    assert kept == page(current.catalog, known_rows(kept))


def test_the_picture_is_up_to_date(current: Session) -> None:
    """Make it anew by ``python -m support.kinds_page``."""
    assert (DOCS / "kinds.svg").read_text(encoding="utf-8") == picture(current.catalog)


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    found = re.findall(r'class="box" x="([\d.]+)" y="(\d+)" width="([\d.]+)" height="(\d+)"', svg)
    return [(float(x), float(y), float(x) + float(width), float(y) + float(height)) for x, y, width, height in found]


def test_no_boxes_overlap(current: Session) -> None:
    svg = picture(current.catalog)
    found = boxes(svg)
    assert len(found) == svg.count('class="kind"') > 20
    for number, (left, top, right, bottom) in enumerate(found):
        for other in found[:number]:
            assert right < other[0] or other[2] < left or bottom < other[1] or other[3] < top


@pytest.mark.parametrize(
    "steps",
    [
        {"f": {"a": "b"}, "g": {"b": "a"}},
        {"f": {"a": "c", "b": "c"}, "g": {"c": "b", "a": "b"}, "h": {"c": "c"}},
        {"f": {"a<b": "c&d"}},
        {f"s{number}": {f"k{number}": f"k{number + 1}"} for number in range(300)},
    ],
    ids=["circle", "two ways", "names", "long"],
)
def test_any_graph_can_be_drawn(steps: dict[str, dict[str, str]]) -> None:
    root = ElementTree.fromstring(draw(steps))
    shown = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {name.lstrip("↻ ") for name in map(str, shown)} >= {*steps}


def test_no_steps_are_an_empty_picture() -> None:
    assert ElementTree.fromstring(draw({})).tag.endswith("svg")
