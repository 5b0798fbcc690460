"""Links and paths in README.md, the other pages beside it and docs/ lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
_README = REPOSITORY / "README.md"
_INDEX = REPOSITORY / "docs" / "README.md"
PAGES = [_README, *sorted({*REPOSITORY.glob("*.md")} - {_README}), *sorted((REPOSITORY / "docs").glob("*.md"))]
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_PICTURE = REPOSITORY / "docs" / "how-it-works.svg"
#: Paths of sources. Placeholders, such as NAME, are in capitals.
_SOURCE = re.compile(r"`([a-z0-9_.-]+(?:/[a-z0-9_.-]+)*(?:/|/[a-z0-9_-]+\.(?:py|yaml|txt|bzl)))`")
#: Pages and schemas, by their path in the repository.
_PAGE = re.compile(r"(?<![\w-])docs/[a-z-]+(?:/[a-z-]+)*\.(?:md|json)")
_TEXTS = {".py", ".md", ".json", ".yaml", ".yml", ".bzl", ".sh", ".h", ".c"}


def links(page: Path) -> list[str]:
    return _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(_FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_resolve(page: Path) -> None:
    for link in links(page):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert target.is_relative_to(REPOSITORY), link
        assert not anchor or anchor in anchors(target), link


def test_the_readme_and_the_index_lead_to_every_page() -> None:
    named = {(page.parent / link.partition("#")[0]).resolve() for page in (_README, _INDEX) for link in links(page)}
    assert _INDEX in {(REPOSITORY / link.partition("#")[0]).resolve() for link in links(_README)}
    assert set(PAGES[1:]) <= named


def test_pages_and_schemas_that_sources_name_exist() -> None:
    """Also those that docs/schemas cite, which are made of docstrings."""
    folders = ("tools", "docs", "matrix", "recipes", "toolchains", "tests", "benchmarks", ".ci", ".github")
    files = [path for folder in folders for path in (REPOSITORY / folder).rglob("*") if path.suffix in _TEXTS]
    named = {name for path in files for name in _PAGE.findall(path.read_text(encoding="utf-8"))}
    assert len(named) > 20
    assert not [name for name in named if not (REPOSITORY / name).exists()]


@pytest.mark.parametrize("page", ["how-it-works.md", "maintainer.md", "internals.md"])
def test_sources_that_a_page_names_exist(page: str) -> None:
    text = _FENCED.sub("", (REPOSITORY / "docs" / page).read_text(encoding="utf-8"))
    # Folders below an action's or the cache's are no sources.
    named = {path for path in _SOURCE.findall(text) if page != "internals.md" or not path.endswith("/")}
    assert len(named) > 5
    package = REPOSITORY / "tools" / "mlir_matrix"
    assert not [path for path in named if not (REPOSITORY / path).exists() and not any(package.rglob(path))]


def test_sources_in_the_picture_exist() -> None:
    texts = re.findall(r'<text class="file"[^>]*>(.+)</text>', _PICTURE.read_text(encoding="utf-8"))
    named = [path for text in texts for path in text.split(" · ")]
    assert len(named) > 10
    package = REPOSITORY / "tools" / "mlir_matrix"
    assert not [path for path in named if not (package / path).exists()]
