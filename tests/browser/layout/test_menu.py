"""The menu and the choice of a colour scheme, by keyboard."""

from tests.browser.harness import layout_checks
from tests.browser.harness.browser_window import BrowserWindow
from tests.browser.harness.studio_pages import PHONE


def test_menu_can_be_skipped_by_keyboard(window: BrowserWindow) -> None:
    page = window.open("/admin/agents")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip-link"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_phone_menu_takes_and_returns_the_focus(window: BrowserWindow) -> None:
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


def test_colour_scheme_can_be_chosen_by_keyboard(window: BrowserWindow) -> None:
    page = window.open("/admin/agents")
    page.locator(".menu-account").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Dark", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_function("layoutChecks.isDark()")
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.className === 'menu-account'")
    assert layout_checks.is_dark(page)
