"""The page of a conversation links to the trace of each turn."""

from tests.browser.theatre import Theatre
from tests.browser.window import Window


def test_conversation_message_links_to_its_turn(window: Window, stage: Theatre) -> None:
    user = next(user for user in stage.get("/admin/users")["data"] if user["turns"] > 9)
    page = window.open(f"/admin/users/{user['id']}")
    trace = page.locator("details.trace").last
    assert trace.locator(".tree").count() == 0
    trace.locator(":scope > summary").click()
    called = trace.locator(".tree li summary").first
    called.wait_for()
    called.click()
    trace.get_by_text("Prompt").first.wait_for()
    trace.get_by_role("link", name="Open turn").click()
    page.locator("h1", has_text="Turn ").wait_for()
    window.link("View in conversation").click()
    page.locator(".bubbles").wait_for()
    assert window.path == f"/admin/users/{user['id']}"
    window.link("Scores").click()
    page.locator("h1", has_text="Scores").wait_for()
    assert window.harms == []
