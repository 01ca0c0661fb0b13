"""Every page, as it is seen by who opens it."""

import pytest

from tests.browser import looking
from tests.browser.places import OVERVIEW, PLACES, Place, found
from tests.browser.theatre import Theatre
from tests.browser.window import Window

PHONE = {"width": 390, "height": 844}

every_page = pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)


def opened(window: Window, stage: Theatre, place: Place):
    return window.open(place.path.format_map(found(stage)))


@every_page
def test_a_page_has_a_title_and_a_way_back(
    window: Window, stage: Theatre, place: Place
) -> None:
    page = opened(window, stage, place)
    title = page.title()
    assert title.startswith(place.title)
    assert title.endswith("Coulisse")
    # The menu's own link apart, there is a way home beside the title.
    trail = page.locator("nav.trail, #content-main, .breadcrumbs, main").first
    assert trail.get_by_role("link", name="Home").count() == (place.name != OVERVIEW)


@every_page
def test_a_page_is_read_by_day_and_by_night_and_on_a_phone(
    window: Window, stage: Theatre, place: Place
) -> None:
    page = opened(window, stage, place)
    assert not looking.is_dark(page)
    assert looking.faint(page) == []
    page.emulate_media(color_scheme="dark")
    page.reload()
    assert looking.is_dark(page)
    assert looking.faint(page) == []
    page.set_viewport_size(PHONE)
    assert not window.is_too_wide()


@every_page
def test_a_page_is_walked_through_by_keys(
    window: Window, stage: Theatre, place: Place
) -> None:
    page = opened(window, stage, place)
    left_out, unseen = looking.walk(page)
    assert left_out == []
    assert unseen == []
