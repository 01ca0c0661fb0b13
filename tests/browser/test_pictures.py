"""Pictures of every page, for the docs: `pytest tests/browser --screenshots DIR`."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.places import PLACES, found
from tests.browser.theatre import Theatre
from tests.browser.window import Window

BY_NIGHT = {"agent", "overview", "live", "turn"}
LOOKS = [("", 1280, False), ("-phone", 390, False), ("-dark", 1280, True)]
QUALITY = 72
MOST_BYTES = 65_000


@pytest.fixture
def directory(request: pytest.FixtureRequest) -> Path:
    directory: Path = request.config.getoption("--screenshots")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@pytest.mark.parametrize(
    ("place", "suffix", "width", "dark"),
    [
        pytest.param(place, *look, id=f"{place.name}{look[0]}")
        for place in PLACES
        for look in LOOKS
        if not look[2] or place.name in BY_NIGHT
    ],
)
def test_screenshot_is_saved(
    directory: Path,
    stage: Theatre,
    opened: Callable[..., Window],
    place,
    suffix: str,
    width: int,
    dark: bool,
) -> None:
    window = opened(width=width, dark=dark)
    page = window.open(place.path.format_map(found(stage)))
    window.settle()
    session = window.context.new_cdp_session(page)
    taken = session.send(
        "Page.captureScreenshot", {"format": "webp", "quality": QUALITY}
    )
    picture = base64.b64decode(taken["data"])
    assert len(picture) <= MOST_BYTES
    (directory / f"{place.name}{suffix}.webp").write_bytes(picture)
