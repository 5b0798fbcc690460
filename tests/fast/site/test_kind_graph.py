"""The picture of a catalog in the pages of a site."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from mlir_matrix.environments.session import Session
from mlir_matrix.site.kind_graph import draw, kind_graph

_SVG = "{http://www.w3.org/2000/svg}"


def test_every_part_is_a_link_to_its_description(current: Session) -> None:
    catalog = current.catalog
    svg = kind_graph(catalog, "catalog.html")
    shown = {link: link.rpartition("/")[2] for link in re.findall(r'href="catalog\.html#([^"]+)"', svg)}
    targets = [name for name, entry in catalog.targets.items() if not entry.document.mode]
    assert shown == {
        f"{what}/{name}": name
        for what, names in (
            ("framework", catalog.frameworks),
            ("kind", catalog.kinds),
            ("step", catalog.steps),
            ("target", targets),
        )
        for name in names
    }
    # A policy of the pages forbids styles and scripts in them.
    assert not re.search(r"<style|style=|<script| on\w+=", svg)


def test_no_boxes_overlap(current: Session) -> None:
    root = ElementTree.fromstring(
        kind_graph(current.catalog, "catalog.html").replace("<svg", f'<svg xmlns="{_SVG[1:-1]}"', 1)
    )
    boxes = [
        (float(box.attrib["x"]), float(box.attrib["y"]), float(box.attrib["width"]), float(box.attrib["height"]))
        for box in root.iter(f"{_SVG}rect")
    ]
    assert len(boxes) > 40
    for number, (left, top, width, height) in enumerate(boxes):
        for other in boxes[:number]:
            beside = left + width < other[0] or other[0] + other[2] < left
            assert beside or top + height < other[1] or other[1] + other[3] < top
    size = [float(part) for part in root.attrib["viewBox"].split()]
    assert all(x >= 0 and x + width <= size[2] and y + height <= size[3] for x, y, width, height in boxes)


def test_a_name_is_a_link_with_a_title() -> None:
    svg = draw(
        {"f": {"a": "b"}, "g": {"b": "b"}}, frameworks={"z<": ["a"]}, targets={("b",): ["t", "u"]}, page="p.html"
    )
    root = ElementTree.fromstring(svg)
    titles = {link.attrib["href"]: (link[0].text, link[1].text) for link in root.iter("a")}
    assert titles == {
        "p.html#framework/z%3C": ("framework z<", "z<"),
        "p.html#kind/a": ("kind a", "a"),
        "p.html#kind/b": ("kind b", "b"),
        "p.html#step/f": ("step f", "f"),
        "p.html#step/g": ("step g", "↻ g"),
        "p.html#target/t": ("target t", "t"),
        "p.html#target/u": ("target u", "u"),
    }


def test_a_kind_that_nothing_takes_is_shown() -> None:
    assert "#kind/alone" in draw({}, kinds=["alone"], page="p.html")
