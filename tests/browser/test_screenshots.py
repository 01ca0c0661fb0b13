"""Screenshots of every page for the docs; see `make pictures`."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.harness.browser_window import BrowserWindow
from tests.browser.harness.studio_pages import PAGES, StudioPage

DARK_PAGES = {"agent", "overview", "live", "turn"}
VARIANTS = [("", 1280, False), ("-phone", 390, False), ("-dark", 1280, True)]
QUALITY = 72
MOST_BYTES = 65_000


@pytest.fixture
def directory(request: pytest.FixtureRequest) -> Path:
    directory: Path = request.config.getoption("--screenshots")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@pytest.mark.parametrize(
    ("studio_page", "suffix", "width", "dark"),
    [
        pytest.param(studio_page, *variant, id=f"{studio_page.name}{variant[0]}")
        for studio_page in PAGES
        for variant in VARIANTS
        if not variant[2] or studio_page.name in DARK_PAGES
    ],
)
def test_screenshot_is_saved(
    directory: Path,
    open_window: Callable[..., BrowserWindow],
    path_parameters: dict[str, str],
    studio_page: StudioPage,
    suffix: str,
    width: int,
    dark: bool,
) -> None:
    window = open_window(width=width, dark=dark)
    page = window.open(studio_page.path.format_map(path_parameters))
    window.wait_until_rendered()
    session = window.context.new_cdp_session(page)
    screenshot = session.send(
        "Page.captureScreenshot", {"format": "webp", "quality": QUALITY}
    )
    image = base64.b64decode(screenshot["data"])
    assert len(image) <= MOST_BYTES
    (directory / f"{studio_page.name}{suffix}.webp").write_bytes(image)
