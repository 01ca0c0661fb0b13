"""Every page of the menu, as it is seen by who opens it."""

import pytest

from studio.navigation import GROUPS
from tests.browser import looking
from tests.browser.window import Window

MENU = [entry for entries in GROUPS.values() for entry in entries]
PHONE = {"width": 390, "height": 844}

every_page = pytest.mark.parametrize("entry", MENU, ids=lambda entry: entry.path)


@every_page
def test_a_page_has_a_title_and_a_way_back(window: Window, entry) -> None:
    page = window.open(entry.path)
    title = page.title()
    assert title.startswith(entry.title)
    assert title.endswith("Coulisse")
    # The menu's own link apart, there is a way home beside the title.
    trail = page.locator("nav.trail, #content-main, .breadcrumbs, main").first
    assert trail.get_by_role("link", name="Home").count() == (entry.path != "/admin/")


@every_page
def test_a_page_is_read_by_day_and_by_night_and_on_a_phone(
    window: Window, entry
) -> None:
    page = window.open(entry.path)
    assert not looking.is_dark(page)
    assert looking.faint(page) == []
    page.emulate_media(color_scheme="dark")
    page.reload()
    assert looking.is_dark(page)
    assert looking.faint(page) == []
    page.set_viewport_size(PHONE)
    assert not window.is_too_wide()


@every_page
def test_a_page_is_walked_through_by_keys(window: Window, entry) -> None:
    page = window.open(entry.path)
    left_out, unseen = looking.walk(page)
    assert left_out == []
    assert unseen == []
