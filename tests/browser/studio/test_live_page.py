"""The live page follows tasks and turns, with and without a WebSocket."""

from collections.abc import Callable

import openai

from tests.browser.harness.browser_window import BrowserWindow
from tests.browser.harness.demo_server import HELD_PROMPT, create_task


def test_live_page_follows_a_task(
    window: BrowserWindow, client: openai.OpenAI, release_model: Callable[[], None]
) -> None:
    page = window.open("/admin/live")
    page.locator("#live-state", has_text="live").wait_for()
    check_task_is_followed(window, client, release_model)
    finished = page.locator("[data-list=finished] tr", has_text=HELD_PROMPT)
    finished.locator("a").first.click()
    page.locator("h1").wait_for()
    assert window.path.startswith("/admin/turns/")


def test_live_page_polls_without_websocket(
    window: BrowserWindow, client: openai.OpenAI, release_model: Callable[[], None]
) -> None:
    window.page.route_web_socket("**/admin/live/events", lambda socket: socket.close())
    page = window.open("/admin/live")
    state = page.locator("#live-state", has_text="every two seconds")
    state.wait_for()
    check_task_is_followed(window, client, release_model)
    assert state.is_visible()


def check_task_is_followed(
    window: BrowserWindow, client: openai.OpenAI, release_model: Callable[[], None]
) -> None:
    """Run a task; check that the page shows its start and its end."""
    page = window.page
    task = create_task(client, f"Stand by. {HELD_PROMPT}")
    running = page.locator(f"[data-list=open] [data-id='{task}']")
    running.locator("[data-field=state]", has_text="running").wait_for()
    turn = page.locator("[data-list=turns] > *", has_text=HELD_PROMPT)
    turn.wait_for()
    assert "translator" in turn.inner_text()
    release_model()
    ended_task = page.locator(f"[data-list=ended] [data-id='{task}']")
    ended_task.locator("[data-field=state]", has_text="done").wait_for()
    turn.wait_for(state="detached")
