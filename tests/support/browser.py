"""A Chromium of the tests' own: the component of the catalog, without a window."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from mlir_matrix.environments.installer import require
from mlir_matrix.environments.selection import prefix_of
from mlir_matrix.environments.session import Session


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
