"""A real browser for the tests: Chromium of this system, driven by Playwright; and what axe finds on a page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PICTURES = os.environ.get("SCREENSHOTS")
"""A folder for the pictures of the documentation; without it they go where the test's other files are."""


@cache
def why_no_browser() -> str | None:
    """Why pages cannot be looked at here; None if they can."""
    if find_spec("playwright") is None:
        return "no browser tests: playwright is not installed"
    if program() is None:
        return f"no browser tests: none of {', '.join(NAMES)} is installed (Debian: apt-get install chromium)"
    return None


def program() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name)) is not None), None)


@contextmanager
def opened_browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program(), args=["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"]
        )
        try:
            yield browser
        finally:
            browser.close()


@cache
def axe_script() -> str:
    return resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def faults_of(page: Page) -> list[str]:
    """What axe finds serious or critical, by the rules of WCAG 2 A and AA."""
    page.evaluate(axe_script())
    options = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}
    found: dict[str, Any] = page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:3]
    ]


def picture(page: Page, folder: Path, name: str, *, whole: bool = False) -> Path:
    """A picture of the page as it is."""
    place = Path(PICTURES) if PICTURES else folder
    path = place / f"console-{name}.png"
    page.screenshot(path=path, full_page=whole)
    return path
