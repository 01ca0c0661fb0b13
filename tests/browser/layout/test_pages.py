"""Layout of every page: title, contrast, keyboard order, width on a phone."""

import pytest

from tests.browser.harness import layout_checks
from tests.browser.harness.browser_window import BrowserWindow
from tests.browser.harness.studio_pages import OVERVIEW, PAGES, PHONE, StudioPage

LISTS = {
    "agents",
    "audit",
    "experiments",
    "judges",
    "mcp",
    "periodic-tasks",
    "smoke-tests",
    "spend",
    "tasks",
    "tokens",
    "triggers",
    "users",
}
FRAMES = "[...document.querySelectorAll('.frame')]"
OVERFLOWS = f"{FRAMES}.map((frame) => frame.scrollWidth - frame.clientWidth)"


@pytest.mark.parametrize("studio_page", PAGES, ids=lambda studio_page: studio_page.name)
def test_page_has_title_contrast_and_keyboard_order(
    window: BrowserWindow, path_parameters: dict[str, str], studio_page: StudioPage
) -> None:
    page = window.open(studio_page.path.format_map(path_parameters))
    title = page.title()
    assert title.startswith(studio_page.title)
    assert title.endswith("Coulisse")
    # The breadcrumbs link to the home page, as does the menu.
    breadcrumbs = page.locator("nav.breadcrumbs").first
    assert breadcrumbs.get_by_role("link", name="Home").count() == (
        studio_page.name != OVERVIEW
    )

    assert not layout_checks.is_dark(page)
    assert layout_checks.low_contrast_texts(page) == []
    unreached, unmarked = layout_checks.tab_through(page)
    assert unreached == []
    assert unmarked == []

    page.emulate_media(color_scheme="dark")
    page.reload()
    assert layout_checks.is_dark(page)
    assert layout_checks.low_contrast_texts(page) == []
    page.set_viewport_size(PHONE)
    assert not window.scrolls_sideways()


@pytest.mark.parametrize(
    "studio_page",
    [studio_page for studio_page in PAGES if studio_page.name in LISTS],
    ids=lambda studio_page: studio_page.name,
)
def test_list_shows_its_main_columns_on_a_phone(
    window: BrowserWindow, path_parameters: dict[str, str], studio_page: StudioPage
) -> None:
    window.page.set_viewport_size(PHONE)
    page = window.open(studio_page.path.format_map(path_parameters))
    assert not any(page.evaluate(OVERFLOWS))
