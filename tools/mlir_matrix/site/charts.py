"""Draw series of measured values as SVG, when a site is built."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

_WIDTH, _HEIGHT, _MARGIN = 240.0, 48.0, 4.0
#: A longer series is drawn as the least and the largest value of each of so many parts.
_PARTS = 80


def chart(values: Sequence[float], change: int, before: float, after: float, label: str) -> Markup:
    """Return a line through the values, with their level before and after the change.

    ``change``: the index of the first value after it. ``label``: what a screen reader says.
    """
    low, high = min(*values, before, after), max(*values, before, after)
    scale = (_HEIGHT - 2 * _MARGIN) / (high - low or 1.0)
    step = (_WIDTH - 2 * _MARGIN) / max(len(values) - 1, 1)

    def x(index: float) -> str:
        return f"{_MARGIN + index * step:.4g}"

    def y(value: float) -> str:
        return f"{_HEIGHT - _MARGIN - (value - low) * scale:.4g}"

    points = " ".join(f"{x(index)},{y(value)}" for index, value in _thinned(values))
    edge = max(change - 0.5, 0.0)
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<polyline class="values" points="{}"/>'
        '<path class="level" d="M{} {}H{}"/><path class="level after" d="M{} {}H{}"/>'
        '<path class="change" d="M{} 0V{}"/></svg>'
    ).format(
        f"{_WIDTH:g}", f"{_HEIGHT:g}", label, points,
        x(0), y(before), x(edge), x(edge), y(after), x(max(len(values) - 1, 0)),
        x(edge), f"{_HEIGHT:g}",
    )  # fmt: skip


def _thinned(values: Sequence[float]) -> list[tuple[int, float]]:
    """Return indices with values, of a long series only the extremes of its parts, so that no peak is lost."""
    points = list(enumerate(values))
    if len(points) <= 2 * _PARTS:
        return points
    kept = {0, len(points) - 1}
    for part in range(_PARTS):
        some = points[part * len(points) // _PARTS : (part + 1) * len(points) // _PARTS]
        kept.add(min(some, key=lambda point: point[1])[0])
        kept.add(max(some, key=lambda point: point[1])[0])
    return [points[index] for index in sorted(kept)]
