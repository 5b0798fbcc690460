"""The pages of a site in a real browser: by keyboard, in both colour schemes, narrow and wide, with hostile text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from mlir_matrix.environments.session import Session
from support import site_sample
from support.browser import Scheme, chromium, open_view, window
from support.site_sample import FAILING, HOSTILE

VIEWS = {
    "today": "index.html",
    "matrix": "matrix.html",
    "tests": "matrix.html#rows=workload&columns=host&in.pipeline=linalg-tiled",
    "error": "matrix.html#color=error&rows=workload&columns=pipeline",
    "test": f"test.html#{quote(FAILING, safe='')}",
    "support": "support.html",
    "trends": "trends.html",
    "best": "best.html",
    "catalog": "catalog.html",
    "workloads": "workloads.html",
}
_ERRORS = {"critical", "serious"}


@pytest.fixture(scope="module")
def browser(current: Session) -> Iterator[Browser]:
    with chromium(current) as started:
        yield started


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site_sample.write(folder / "full")
    site_sample.write(folder / "bare", full=False)
    return folder / "full"


class Watched:
    """A page, and what it did that it must not do."""

    def __init__(self, browser: Browser, site: Path, *, scheme: Scheme = "light", width: int = 1600) -> None:
        self.page: Page = window(browser, scheme, width).new_page()
        self.site = site
        self.wrong: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.wrong.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url: str) -> None:
        if not url.startswith(("file://", "data:,")):
            self.wrong.append(url)

    def open(self, view: str) -> Page:
        # A change of the hash alone would not load the page again.
        self.page.goto("about:blank")
        open_view(self.page, self.site, view)
        return self.page


@pytest.fixture
def watched(browser: Browser, site: Path) -> Iterator[Watched]:
    made = Watched(browser, site)
    yield made
    made.page.context.close()
    assert made.wrong == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1600), ("dark", 375)])
def test_every_page_fits_and_is_accessible(browser: Browser, site: Path, scheme: Scheme, width: int) -> None:
    watched = Watched(browser, site, scheme=scheme, width=width)
    axe = Axe()
    # Of what is right, axe would describe each element.
    options = {"preload": False, "resultTypes": ["violations"]}
    found = []
    for name, view in VIEWS.items():
        page = watched.open(view)
        # Nothing but tables with scroll bars of their own is wider than the window.
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert page.locator("h1").count() == 1, name
        for violation in axe.run(page, options=options).response["violations"]:
            if violation["impact"] in _ERRORS:
                found.append((name, violation["id"], violation["nodes"][0]["html"][:200]))
    watched.page.context.close()
    assert found == []
    assert watched.wrong == []


def test_today_says_what_is_wrong_and_since_when(watched: Watched) -> None:
    page = watched.open("index.html")
    assert page.inner_text("h1") == "3 causes make 44 tests fail on 2 of 3 machines; the newest since 04:12."
    page.click("article.new a:has-text('in the matrix')")
    page.wait_for_selector(".grid")
    assert "6 unexpected" not in page.inner_text("#state")
    assert page.inner_text("#state").startswith("12 tests, 24 results, 24 unexpected")


def test_by_keyboard_from_today_to_the_ir_of_a_test(watched: Watched) -> None:
    page = watched.open("index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page = watched.open("matrix.html")
    page.focus("#text")
    # One stop of the Tab key in the matrix: outcomes, then the worst cell.
    while page.evaluate("!document.activeElement.closest('.grid')"):
        page.keyboard.press("Tab")
    assert "3 of" not in page.evaluate("document.activeElement.getAttribute('aria-label')")
    labels = []
    for key in ("ArrowRight", "ArrowDown", "Home", "End"):
        page.keyboard.press(key)
        labels.append(page.evaluate("document.activeElement.getAttribute('aria-label')"))
    assert len(set(labels)) == 4
    page.keyboard.press("Enter")
    page.wait_for_selector("#fixed a")
    assert page.evaluate("document.activeElement.className").startswith("cell")
    page.keyboard.press("Escape")
    page.wait_for_selector("#fixed a", state="detached")
    page.keyboard.press("Enter")
    page.wait_for_selector("#fixed a")
    page.keyboard.press("Enter")
    page.wait_for_url("**/test.html#*")


def test_the_view_is_in_the_address(watched: Watched) -> None:
    page = watched.open("matrix.html#text=softmax&rows=framework&columns=target&letters=M")
    assert page.input_value("#text") == "softmax"
    assert page.inner_text("#state").startswith("64 tests, 12 results, 12 unexpected")
    page.fill("#text", "*/linalg-tiled/x86_64/{softmax,attention} | nothing")
    assert page.inner_text("#state").startswith("6 tests, 12 results")
    page.select_option("#rows", "target")
    assert page.input_value("#columns") == "framework"
    assert "rows=target" in page.url
    page.go_back()
    page.wait_for_function("document.getElementById('rows').value === 'framework'")


def test_a_test_shows_where_the_ir_changed(watched: Watched) -> None:
    page = watched.open(VIEWS["test"])
    assert page.locator("#left option:checked").inner_text() == "good: after tile-reductions"
    assert [page.locator(".diff del").all_inner_texts(), page.locator(".diff ins").all_inner_texts()] == [
        ["maximumf", "64", "1"],
        ["maxnumf", "32", "2"],
    ]
    page.click("text=compare >> nth=1")
    page.wait_for_selector("text=Both are equal")
    assert "left=0+torch-to-linalg&right=1+torch-to-linalg" in page.url


def test_support_gives_the_reason_of_a_hole(watched: Watched) -> None:
    page = watched.open("support.html#row=mlp&column=riscv64&answers=x")
    page.focus(".grid .cell")
    assert "mlp through pytorch / linalg-loops / riscv64: wrong" in page.inner_text("#reason")
    assert "alert(1)" in page.inner_text("#reason")


def test_hostile_text_is_text(watched: Watched) -> None:
    for view in (
        "index.html",
        "support.html",
        VIEWS["test"],
        f"test.html#{quote(HOSTILE, safe='')}%00",
        "matrix.html#text=%3Cimg%20src=x%3E",
    ):
        page = watched.open(view)
        assert page.locator("img[src=x]").count() == 0
        assert "\u202e" not in page.content()
        assert "\x00" not in page.content()
    # Megabytes of a log are cut.
    page = watched.open(VIEWS["test"])
    assert len(page.content()) < 500_000


def test_pages_work_without_what_is_optional(browser: Browser, site: Path) -> None:
    watched = Watched(browser, site.parent / "bare")
    said = {
        VIEWS["test"]: "matrix explain", "support.html": "matrix report html", "trends.html": "matrix run --cost",
        "best.html": "matrix run --cost", "catalog.html": "matrix report html",
        "matrix.html#color=error": "No run has values of error",
    }  # fmt: skip
    for view, words in said.items():
        assert words in watched.open(view).inner_text("main"), view
    watched.page.context.close()
    assert watched.wrong == []


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("manifest.js", "", "manifest is missing or cut short"),
        ("manifest.js", 'matrix.put("manifest",{"schema":"mlir-matrix/site/v9"});', "mlir-matrix/site/v9"),
        ("0.js", "", "is missing or cut short"),
    ],
)
def test_data_that_are_not_whole_are_named(
    browser: Browser, site: Path, tmp_path: Path, file: str, content: str, says: str
) -> None:
    site_sample.write(tmp_path / "site")
    (tmp_path / "site" / "data" / file).write_text(content, encoding="utf-8")
    watched = Watched(browser, tmp_path / "site")
    page = watched.open("matrix.html")
    page.wait_for_selector("#state.warning")
    assert says in page.inner_text("#state")
    watched.page.context.close()
