"""A conversation shows the trace of each turn, and links to the turn."""

from tests.browser.harness.browser_window import BrowserWindow
from tests.browser.harness.demo_server import DemoServer


def test_conversation_message_links_to_its_turn(
    window: BrowserWindow, demo_server: DemoServer
) -> None:
    user = next(
        user for user in demo_server.get("/admin/users")["data"] if user["turns"] > 9
    )
    page = window.open(f"/admin/users/{user['id']}")
    # The trace of a failed turn, and a failed call, which is open, have no usage.
    replies = page.locator(".meta.is-assistant + .message-details")
    trace = replies.locator("details.trace:not(:has(> summary .is-bad))").last
    assert trace.locator(".tree").count() == 0
    trace.locator(":scope > summary").click()
    usage = page.locator("dt", has_text="Prompt")
    call = trace.locator(".tree li > details", has=usage).first
    call.locator("summary").click()
    call.locator("dt", has_text="Prompt").wait_for()
    trace.get_by_role("link", name="View turn").click()
    page.locator("h1", has_text="Turn ").wait_for()
    window.link("View in conversation").click()
    page.locator(".bubbles").wait_for()
    assert window.path == f"/admin/users/{user['id']}"
    window.link("Scores").click()
    page.locator("h1", has_text="Scores").wait_for()
