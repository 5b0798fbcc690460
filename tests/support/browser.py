"""A Chromium of the tests' own: the component of the catalog, without a window."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from mlir_matrix.environments.installer import require
from mlir_matrix.environments.selection import prefix_of
from mlir_matrix.environments.session import Session

Scheme: TypeAlias = Literal["light", "dark"]


@contextmanager
def chromium(session: Session) -> Iterator[Browser]:
    """Run a browser. It sees only the fonts of the component."""
    environment, prefix = prefix_of(session, "chromium")
    require(session, environment)
    program = prefix / "usr/lib/chromium/chromium-headless-shell"
    fonts = {"FONTCONFIG_FILE": str(prefix / "etc/fonts/fonts.conf"), "FONTCONFIG_SYSROOT": str(prefix)}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, env=fonts)
        try:
            yield browser
        finally:
            browser.close()


def window(browser: Browser, scheme: Scheme, width: int) -> BrowserContext:
    """Return a window of this colour scheme and width, for pages of its own."""
    return browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})


def open_view(page: Page, site: Path, view: str) -> None:
    """Open a page of a site, ``matrix.html#…``, and wait for its data."""
    page.goto(f"file://{site}/{view}")
    page.wait_for_function("!document.getElementById('state')?.textContent.startsWith('Loading')")
