"""Each wrong thing in a file with its sentence and its place: the table is ``sentences.yaml``."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from support.right_catalog import Tree

TABLE = yaml.safe_load(Path(__file__).with_name("sentences.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("file", "before", "after", "sentences"),
    [(file, before, after, said) for file, cases in TABLE.items() for before, after, *said in cases],
)
def test_sentences(tree: Tree, file: str, before: str | None, after: str, sentences: list[str]) -> None:
    if before is None:
        place = tree.path / file
        tree.write(file, (place.read_text() if place.exists() else "") + after)
    else:
        tree.edit(file, before, after)
    assert [error.removeprefix(f"{file}:").strip() for error in tree.errors()] == sentences
