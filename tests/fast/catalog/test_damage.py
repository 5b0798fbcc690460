"""Whatever is done to a catalog's files, loading gives a catalog or one error for people: nothing else, and soon."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mlir_matrix.base.errors import CatalogError

WORDS = ["torch", "linalg", "object", "tile", "mlp", "plain", "x", "*", "**", "a/b/c/d", "{", "}", "[", "]", "[a", "{a,b", "${x}",
         "$", "0", "-1", "1e9", "1.5", "true", "", "null", "~", "[]", "{}", "- ", "a: ", ": ", "\n", "\n  ", "&a", "*a", "<<: ",
         "K", "sqrt(", "9**9**9", "1/0", "'", '"', "\\", "passes", "check", "schedule: tile.mlir", "parameters: {x: {}}", "\0",
         "\xff", "é", "llvm", "'19'", "19.1.7", ">=19", "@llvm=18", "deb", "when: ", "pins: {llvm: ['18']}",
         "releases: []\n", "description: x\n", "steps: []\n", "#", "..", "../..", "/etc/passwd", "!!python/name:os"]  # fmt: skip
CUTS = st.tuples(st.floats(0, 1), st.floats(0, 1), st.lists(st.sampled_from(WORDS), max_size=3).map("".join))


def damaged(text: str, cut: tuple[float, float, str]) -> str:
    """The text with a part of at most thirty characters replaced."""
    start = int(cut[0] * len(text))
    return text[:start] + cut[2] + text[start + int(cut[1] * 30) :]


@given(st.data())
def test_damaged_files(tree: Any, data: st.DataObject) -> None:
    files = sorted(str(path.relative_to(tree.path)) for path in tree.path.rglob("*") if path.is_file())
    name = data.draw(st.sampled_from(files))
    whole = (tree.path / name).read_text(encoding="latin-1")
    text = whole
    for cut in data.draw(st.lists(CUTS, min_size=1, max_size=3)):
        text = damaged(text, cut)
    started = time.monotonic()
    try:
        tree.write(name, text.encode("latin-1"))
        assert tree.load().roots == (tree.path,)
    except CatalogError as error:
        for line in str(error).split("\n"):
            assert line.isprintable()
            assert line.count(": ")
    finally:
        tree.write(name, whole.encode("latin-1"))
    assert time.monotonic() - started < 60


@given(st.data())
def test_lost_files(tree: Any, data: st.DataObject) -> None:
    files = sorted(path for path in tree.path.rglob("*") if path.is_file())
    lost = data.draw(st.lists(st.sampled_from(files), unique=True, max_size=8))
    kept = {path: path.read_bytes() for path in lost}
    try:
        for path in lost:
            path.unlink()
        tree.load()
    except CatalogError as error:
        assert str(error).isprintable() or "\n" in str(error)  # noqa: PT017
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
