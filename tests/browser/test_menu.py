"""Every page, as it is seen by who opens it."""

import pytest

from tests.browser import looking
from tests.browser.places import OVERVIEW, PLACES, Place
from tests.browser.window import Window

PHONE = {"width": 390, "height": 844}
LISTS = {
    *("agents", "audit", "experiments", "judges", "mcp", "smoke-tests", "spend"),
    *("tasks", "tokens", "triggers", "users"),
}
FRAMES = "[...document.querySelectorAll('.frame')]"
HIDDEN = f"{FRAMES}.map((frame) => frame.scrollWidth - frame.clientWidth)"


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_page_has_title_contrast_and_keyboard_order(
    window: Window, names: dict[str, str], place: Place
) -> None:
    page = window.open(place.path.format_map(names))
    title = page.title()
    assert title.startswith(place.title)
    assert title.endswith("Coulisse")
    # The menu's own link apart, there is a way home beside the title.
    trail = page.locator("nav.breadcrumbs").first
    assert trail.get_by_role("link", name="Home").count() == (place.name != OVERVIEW)

    assert not looking.is_dark(page)
    assert looking.faint(page) == []
    left_out, unseen = looking.walk(page)
    assert left_out == []
    assert unseen == []

    page.emulate_media(color_scheme="dark")
    page.reload()
    assert looking.is_dark(page)
    assert looking.faint(page) == []
    page.set_viewport_size(PHONE)
    assert not window.is_too_wide()


@pytest.mark.parametrize(
    "place",
    [place for place in PLACES if place.name in LISTS],
    ids=lambda place: place.name,
)
def test_list_shows_its_main_columns_on_a_phone(
    window: Window, names: dict[str, str], place: Place
) -> None:
    window.page.set_viewport_size(PHONE)
    page = window.open(place.path.format_map(names))
    assert not any(page.evaluate(HIDDEN))


def test_menu_can_be_skipped_by_keyboard(window: Window) -> None:
    page = window.open("/admin/agents")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip-link"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_phone_menu_takes_and_returns_the_focus(window: Window) -> None:
    page = window.open("/admin/agents")
    page.set_viewport_size(PHONE)
    opener = page.get_by_role("button", name="Menu", exact=True)
    opener.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.id === 'menu-closer'")
    assert opener.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.id === 'menu-opener'")
    assert not page.locator("#nav-sidebar").is_visible()


def test_colour_scheme_can_be_chosen_by_keyboard(window: Window) -> None:
    page = window.open("/admin/agents")
    page.locator(".menu-account").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Dark", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_function("looking.isDark()")
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.className === 'menu-account'")
    assert looking.is_dark(page)
