"""Sizes: what fits without scrolling, and click targets of at least 24 pixels."""

from collections.abc import Callable

import pytest

from tests.browser.harness.browser_window import BrowserWindow


def test_whole_menu_fits_a_window_of_800_pixels(window: BrowserWindow) -> None:
    page = window.open("/admin/")
    last = page.locator("#nav-sidebar-apps a").last.bounding_box()
    foot = page.locator(".menu-user").bounding_box()
    assert last["y"] + last["height"] <= foot["y"]
    assert last["height"] >= 24


def test_run_marks_are_large_enough_to_click(window: BrowserWindow) -> None:
    for path, mark in [
        ("/admin/smoke", "a.mark"),
        ("/admin/triggers", ".trigger-runs a"),
    ]:
        box = window.open(path).locator(mark).first.bounding_box()
        assert min(box["width"], box["height"]) >= 24, path


@pytest.mark.parametrize(
    ("path", "width"),
    [
        ("/admin/tokens", 1280),
        ("/admin/tokens", 390),
        ("/admin/smoke/runs", 390),
        ("/admin/usage-counters", 390),
        ("/admin/files", 390),
    ],
)
def test_lists_fit_without_scrolling(
    open_window: Callable[..., BrowserWindow], path: str, width: int
) -> None:
    frame = open_window(width=width).open(path).locator("#studio .frame").first
    assert frame.evaluate("it => it.scrollWidth - it.clientWidth") <= 1


def test_truncated_text_is_shown_on_hover(window: BrowserWindow) -> None:
    page = window.open("/admin/live")
    cell = page.locator("[data-list=open] .live-text").first
    cell.hover()
    assert cell.get_attribute("title") == " ".join(cell.text_content().split())
