"""A task and a turn are watched on the live board."""

from collections.abc import Callable

import openai

from tests.browser.theatre import CUE, asked
from tests.browser.window import Window


def test_live_page_follows_a_task(
    window: Window, client: openai.OpenAI, cue: Callable[[], None]
) -> None:
    page = window.open("/admin/live")
    page.locator("#live-state", has_text="live").wait_for()
    assert_task_is_shown(window, client, cue)
    lately = page.locator("[data-list=finished] tr", has_text=CUE)
    lately.locator("a").first.click()
    page.locator("h1").wait_for()
    assert window.path.startswith("/admin/turns/")


def test_live_page_polls_without_websocket(
    window: Window, client: openai.OpenAI, cue: Callable[[], None]
) -> None:
    window.page.route_web_socket("**/admin/live/events", lambda socket: socket.close())
    page = window.open("/admin/live")
    page.locator("#live-state", has_text="every two seconds").wait_for()
    assert_task_is_shown(window, client, cue)


def assert_task_is_shown(
    window: Window, client: openai.OpenAI, cue: Callable[[], None]
) -> None:
    """Have a task done, and see on the board that it begins and ends."""
    page = window.page
    task = asked(client, f"Stand by. {CUE}")
    running = page.locator(f"[data-list=open] [data-id='{task}']")
    running.locator("[data-field=state]", has_text="running").wait_for()
    turn = page.locator("[data-list=turns] > *", has_text=CUE)
    turn.wait_for()
    assert "translator" in turn.inner_text()
    cue()
    ended = page.locator(f"[data-list=ended] [data-id='{task}']")
    ended.locator("[data-field=state]", has_text="done").wait_for()
    turn.wait_for(state="detached")
