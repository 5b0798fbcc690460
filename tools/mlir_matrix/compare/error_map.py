"""Draw a map of the error: one pixel per element, or per group of elements with its worst error.

The tensor is laid out in two dimensions: the last axis to the right, all others downwards. Colours show the share of the bound
that an error takes: white is none, blue is within the bound, yellow to red is over it, black is NaN or infinite.
"""

from __future__ import annotations

import base64
import math
import struct
import textwrap
import zlib
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.criteria import Criteria, compare_block
from mlir_matrix.actions.numerics.dtypes import Array
from mlir_matrix.base.files import write_output
from mlir_matrix.compare.fast_path import blocks

#: The most pixels of the longer side of the map. A small map is enlarged to about this size.
_SIDE = 640
#: Shares of the bound at which colours change, and the colours. Above the last share, the colour stays. NaN is black.
_STOPS = (0.0, 0.25, 1.0, 1.0000001, 10.0, 1000.0, 1e6)
_COLOURS = (
    (255, 255, 255),
    (222, 235, 247),
    (66, 133, 200),
    (255, 237, 130),
    (253, 160, 60),
    (222, 45, 38),
    (120, 0, 30),
)
#: The largest average width of a character of notes and of the title, in pixels.
_CHARACTER, _TITLE_CHARACTER = 7.0, 9.0
Pixels = NDArray[np.uint8]


def draw(
    path: Path, actual: Array | None, expected: Array | None, record: Mapping[str, Any], criteria: Criteria
) -> None:
    """Write the map as ``.png`` or, with axes and a legend, as ``.svg``. Raise ValueError if there is no map.

    ``record`` is the result of comparing these arrays by these criteria.
    """
    if actual is None or expected is None or "wrong" not in record:
        raise ValueError(f"there is no map of this: {record['reason']}")
    pixels = _colours(_shares(actual, expected, record, criteria))
    if path.suffix == ".png":
        write_output(path, _png(_enlarged(pixels)))
    elif path.suffix == ".svg":
        write_output(path, _svg(record, actual.shape, pixels).encode())
    else:
        raise ValueError(f"{path}: a map is a .png or .svg file")


def _shares(actual: Array, expected: Array, record: Mapping[str, Any], criteria: Criteria) -> NDArray[np.float64]:
    """Return the largest share of the bound in each cell of the map."""
    kind, shape = str(record["dtype"]), actual.shape
    columns = shape[-1] if shape else 1
    rows = max(1, actual.size // columns)
    height, width = min(rows, _SIDE), min(columns, _SIDE)
    cells = np.zeros(height * width)
    for start, left, right in blocks(actual, expected):
        wanted = right if record.get("golden") else dtypes.decode(right, kind)
        block = compare_block(start, left, wanted, kind, criteria)
        row, column = np.divmod(np.arange(start, start + left.size), columns)
        cell = row * height // rows * width + column * width // columns
        np.maximum.at(cells, cell, np.where(block.hopeless, np.inf, np.minimum(block.used, 1e300)))
    return cells.reshape(height, width)


def _colours(shares: NDArray[np.float64]) -> Pixels:
    finite = np.where(np.isfinite(shares), shares, 0.0)
    channels = [np.interp(finite, _STOPS, [colour[channel] for colour in _COLOURS]) for channel in range(3)]
    pixels: Pixels = np.stack(channels, axis=-1).round().astype(np.uint8)
    pixels[np.isinf(shares)] = 0
    return pixels


def _enlarged(pixels: Pixels) -> Pixels:
    times = max(1, _SIDE // max(pixels.shape[:2]))
    return pixels.repeat(times, axis=0).repeat(times, axis=1)


def _png(pixels: Pixels) -> bytes:
    """Return a PNG file of 8 bits a channel, without filters: flat colours compress well anyway."""
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), dtype=np.uint8), pixels.reshape(height, width * 3)], axis=1)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    body = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


def _svg(record: Mapping[str, Any], shape: tuple[int, ...], pixels: Pixels) -> str:
    """Return the map with its axes, a legend and a description of the errors."""
    elements = math.prod(shape)
    scale = _SIDE / max(pixels.shape[:2])
    height, width = max(12.0, pixels.shape[0] * scale), max(12.0, pixels.shape[1] * scale)
    image = base64.b64encode(_png(_enlarged(pixels))).decode("ascii")
    # Escape characters that XML cannot contain, and names that are not UTF-8.
    name = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(record["name"])) or "error"
    title = f"{name}: {record['dtype']} {list(shape)}, {record['wrong']} of {elements} elements wrong"
    across = f"axis {len(shape) - 1}: 0 … {shape[-1] - 1}" if shape else "one element"
    axes = "axis 0" if len(shape) == 2 else f"axes 0 to {len(shape) - 2}"
    down = f"{axes}: 0 … {elements // shape[-1] - 1}" if len(shape) > 1 else ""
    total = max(width, 560.0, _TITLE_CHARACTER * len(title)) + 80
    said = (record.get("where") or "nothing is wrong", record.get("looks", ""), record.get("character", ""))
    columns = int((total - 80) / _CHARACTER)
    notes = [escape(line) for words in said for line in textwrap.wrap(str(words), columns)]
    below = 96 + height
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total:.0f}" height="{below + 60 + 18 * len(notes):.0f}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="60" y="28" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="60" y="52" fill="#555">{escape(across)}</text>',
        f'<text x="0" y="0" fill="#555" transform="translate(50 {64 + height:.1f}) rotate(-90)">{escape(down)}</text>',
        f'<image x="60" y="64" width="{width:.1f}" height="{height:.1f}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="data:image/png;base64,{image}"/>',
        f'<rect x="60" y="64" width="{width:.1f}" height="{height:.1f}" fill="none" stroke="#888"/>',
        *_legend(below),
        *(f'<text x="60" y="{below + 52 + 18 * number:.0f}">{note}</text>' for number, note in enumerate(notes)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _legend(top: float) -> list[str]:
    labels = ("0", "¼", "1", "over", "10", "1000", "10⁶", "NaN, inf")
    colours = (*_COLOURS, (0, 0, 0))
    boxes = []
    for number, (label, (red, green, blue)) in enumerate(zip(labels, colours, strict=True)):
        x = 60 + 64 * number
        boxes.append(
            f'<rect x="{x}" y="{top - 12:.0f}" width="14" height="14" fill="rgb({red},{green},{blue})" stroke="#888"/>'
            f'<text x="{x + 19}" y="{top:.0f}">{label}</text>'
        )
    return [*boxes, f'<text x="60" y="{top + 20:.0f}" fill="#555">share of the bound that the error takes</text>']
