"""Draw kinds and the steps between them, from top to bottom: each line of nodes in an order in which few edges cross.

In pages the style sheet of the site has the colours: of the picture (``.kinds``), of ``.edge``, of ``.box`` with ``.framework``,
``.kind`` or ``.target``, and of text with one of these or ``.step``. Texts are centred, 13 px, those of kinds bold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from statistics import mean
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote

from mlir_matrix.catalog.catalog import Catalog

#: Pixels: a character, one of a kind's name, the space around a name, the height of a row of kinds and of steps, between nodes,
#: around the picture.
_CHARACTER, _BOLD, _PADDING, _ROWS, _GAP, _MARGIN = 7.6, 8.4, 18, (64, 52), 12, 16
#: How often rows are sorted and moved. More changes nothing in graphs of a hundred nodes.
_SWEEPS = 24
#: Half the height of a box without steps, and the height of a step in it.
_BOX, _LINE = 17, 18
_STYLE = """\
    text { font-family: ui-sans-serif, system-ui, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 13px; }
    text { fill: #1f2328; text-anchor: middle; }
    .kind { font-weight: 600; }
    .page { fill: #ffffff; }
    .box { fill: #ddf4ff; stroke: #0969da; }
    .edge { fill: none; stroke: #818b98; stroke-width: 1.2; }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; }
      .page { fill: #0d1117; }
      .box { fill: #0c2d53; stroke: #4493f8; }
      .edge { stroke: #6e7681; }
    }
"""


class GraphNode(NamedTuple):
    """A framework, a kind, a step, targets, or a point of an edge that passes a row."""

    name: str
    what: str = "point"
    #: Of a kind: the steps that give the kind that they take. Of targets: the others that accept the same.
    lines: tuple[str, ...] = ()

    @property
    def width(self) -> float:
        if self.what == "point":
            return 0
        name = len(self.name) * (_BOLD if self.what == "kind" else _CHARACTER)
        return max(name, *((len(line) + 2 * (self.what == "kind")) * _CHARACTER for line in self.lines), 0) + _PADDING

    @property
    def above(self) -> int:
        """How far it reaches above the middle of its name."""
        # A passing edge is straight beside the boxes of a row.
        return 9 if self.what == "step" else _BOX

    @property
    def below(self) -> int:
        """How far it reaches below the middle of its name."""
        return 0 if self.what == "point" else self.above + _LINE * len(self.lines)


Edge = tuple[GraphNode, GraphNode]


def kind_graph(catalog: Catalog, page: str) -> str:
    """Return the picture of a catalog for a page, without modes of targets. Each name is a link to its part, ``PAGE#kind/NAME``."""
    accepted: dict[tuple[str, ...], list[str]] = {}
    for name, target in catalog.targets.items():
        if not target.document.mode:
            accepted.setdefault(target.document.accepts, []).append(name)
    return draw(
        {name: step.document.kinds() for name, step in catalog.steps.items()},
        kinds=catalog.kinds,
        frameworks={name: list(entry.document.emits) for name, entry in catalog.frameworks.items()},
        targets=accepted,
        page=page,
    )


def draw(
    steps: Mapping[str, Mapping[str, str]],
    *,
    kinds: Iterable[str] = (),
    frameworks: Mapping[str, Sequence[str]] = MappingProxyType({}),
    targets: Mapping[tuple[str, ...], Sequence[str]] = MappingProxyType({}),
    page: str = "",
) -> str:
    """Return a picture in SVG.

    Arguments:
        steps: The kind that each gives, by each that it takes.
        kinds: Those that are shown even if nothing gives or takes them.
        frameworks: The kinds that each emits.
        targets: By the kinds that they accept.
        page: Where the parts are described. Without a page, the picture is a file with colours of its own.
    """
    kept_by: dict[str, list[str]] = {}
    for step, given in sorted(steps.items()):
        for kind, gives in given.items():
            if gives == kind:
                kept_by.setdefault(kind, []).append(step)

    def node(kind: str) -> GraphNode:
        return GraphNode(kind, "kind", tuple(kept_by.get(kind, ())))

    edges: set[Edge] = set()
    for step, given in steps.items():
        for kind, gives in given.items():
            if gives != kind:
                edges |= {(node(kind), GraphNode(step, "step")), (GraphNode(step, "step"), node(gives))}
    edges |= {(GraphNode(name, "framework"), node(kind)) for name, emits in frameworks.items() for kind in emits}
    for accepts, (first, *others) in targets.items():
        edges |= {(node(kind), GraphNode(first, "target", tuple(others))) for kind in accepts}
    rows, joined = _rows(sorted(edges), [*map(node, kinds)])
    x = _places(rows, joined)
    y: dict[GraphNode, float] = {}
    bottom: dict[GraphNode, float] = {}
    top = float(_MARGIN + _BOX)
    for row in rows:
        below = max(node.below for node in row)
        y |= dict.fromkeys(row, top)
        # An edge that passes a row goes down beside its boxes.
        bottom |= {node: top + (below if node.what == "point" else node.below) for node in row}
        top += _ROWS[all(node.what != "kind" for node in row)] + max(0, below - _BOX)
    width = max((x[node] + node.width / 2 for node in x), default=0) + _MARGIN
    lines = [_line(x, y, bottom, edge) for edge in sorted(joined)]
    lines += [line for node in sorted(x) for line in _shown(node, x[node], y[node], page)]
    return _svg(lines, width, top, page)


def _rows(edges: Sequence[Edge], nodes: Iterable[GraphNode]) -> tuple[list[list[GraphNode]], list[Edge]]:
    """Return the rows of a graph, and its edges, each from a row to the next one: long ones have points, those up are left out."""
    row: dict[GraphNode, int] = {}
    before: dict[GraphNode, list[GraphNode]] = {node: [] for node in nodes}
    for begin, end in edges:
        before.setdefault(end, []).append(begin)
        before.setdefault(begin, [])

    def depth(node: GraphNode, path: frozenset[GraphNode]) -> int:
        if node not in row:
            path |= {node}
            row[node] = max((depth(each, path) + 1 for each in before[node] if each not in path), default=0)
        return row[node]

    for node in before:
        depth(node, frozenset())
    for node in [node for node in before if not before[node]]:
        row[node] = min((row[end] for begin, end in edges if begin == node), default=1) - 1
    rows: list[list[GraphNode]] = [[] for _ in range(max(row.values(), default=-1) + 1)]
    for node, number in sorted(row.items()):
        rows[number].append(node)
    joined: list[Edge] = []
    for begin, end in (edge for edge in edges if row[edge[0]] < row[edge[1]]):
        chain = [begin, *(GraphNode(f"{begin.name}>{end.name}>{at}") for at in range(row[begin] + 1, row[end])), end]
        for at, point in enumerate(chain[1:-1], row[begin] + 1):
            rows[at].append(point)
        joined += pairwise(chain)
    return rows, joined


def _neighbours(edges: Iterable[Edge]) -> dict[GraphNode, list[GraphNode]]:
    found: dict[GraphNode, list[GraphNode]] = {}
    for begin, end in edges:
        found.setdefault(begin, []).append(end)
        found.setdefault(end, []).append(begin)
    return found


def _places(rows: Sequence[list[GraphNode]], edges: Iterable[Edge]) -> dict[GraphNode, float]:
    """Return the middle of each node: near those of its neighbours, without overlaps. Sort each row by that."""
    beside = _neighbours(edges)
    x = {node: float(at * 100) for row in rows for at, node in enumerate(row)}
    for _ in range(_SWEEPS):
        for row in rows:
            wanted = sorted((mean(x[each] for each in beside.get(node, [node])), node) for node in row)
            row[:] = [node for _, node in wanted]
            _spread(row, [place for place, _ in wanted], x)
    left = min((x[node] - node.width / 2 for node in x), default=0)
    return {node: place - left + _MARGIN for node, place in x.items()}


def _spread(row: Sequence[GraphNode], wanted: Sequence[float], x: dict[GraphNode, float]) -> None:
    """Place a row from the left and from the right; the mean of both keeps the distances and is near what is wanted."""
    gaps = [(one.width + two.width) / 2 + _GAP for one, two in pairwise(row)]
    left, right = [*wanted], [*wanted]
    for at, gap in enumerate(gaps):
        left[at + 1] = max(left[at + 1], left[at] + gap)
    for at in range(len(gaps) - 1, -1, -1):
        right[at] = min(right[at], right[at + 1] - gaps[at])
    x |= {node: round((one + two) / 2, 1) for node, one, two in zip(row, left, right, strict=True)}


def _svg(lines: Iterable[str], width: float, height: float, page: str) -> str:
    if page:
        title = "Frameworks, kinds and targets, in boxes, and the steps between them"
        # Without a size, it would shrink to the width of a phone.
        size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
        begin = f'<svg class="kinds" {size} role="group">\n  <title>{title}</title>\n'
    else:
        title = "Kinds, in boxes, and the steps between them"
        begin = f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-labelledby="title">
  <title id="title">{title}</title>
  <style>
{_STYLE}  </style>
  <rect class="page" width="100%" height="100%"/>
"""
    return begin + "".join(f"  {line}\n" for line in lines) + "</svg>\n"


def _line(
    x: Mapping[GraphNode, float], y: Mapping[GraphNode, float], bottom: Mapping[GraphNode, float], edge: Edge
) -> str:
    begin, end = edge
    first, last = bottom[begin], y[end] - end.above
    start = y[begin] - begin.above if begin.what == "point" else first
    middle = (first + last) / 2
    curve = f"C{x[begin]:.1f} {middle:.0f} {x[end]:.1f} {middle:.0f} {x[end]:.1f} {last:.0f}"
    return f'<path class="edge" d="M{x[begin]:.1f} {start:.0f}V{first:.0f}{curve}"/>'


def _shown(node: GraphNode, x: float, y: float, page: str) -> Iterator[str]:
    """Yield the elements of a node; with a page, each name is a link."""
    if node.what == "point":
        return
    if node.what != "step":
        left, box = x - node.width / 2, f'width="{node.width:.1f}" height="{node.above + node.below}" rx="5"'
        also = f" {node.what}" if page else ""
        yield f'<rect class="box{also}" x="{left:.1f}" y="{y - _BOX:.0f}" {box}/>'
    yield _name(node.what, node.name, x, y + 4, page)
    for number, line in enumerate(node.lines, 1):
        yield _name("kept" if node.what == "kind" else node.what, line, x, y + 4 + _LINE * number, page)


def _name(what: str, name: str, x: float, y: float, page: str) -> str:
    shown = f"↻ {name}" if what == "kept" else name
    part = "step" if what == "kept" else what
    named = "" if what == "kept" and not page else f'class="{part}" '
    text = f'<text {named}x="{x:.1f}" y="{y:.0f}">{escape(shown)}</text>'
    if not page:
        return text
    return f'<a href="{page}#{part}/{quote(name)}"><title>{part} {escape(name)}</title>{text}</a>'
