"""Pages of what is under way look again by themselves."""

from tests.browser.theatre import Theatre
from tests.browser.window import Window


def test_a_tasks_page_tells_what_becomes_of_it(window: Window, stage: Theatre) -> None:
    task = stage.get("/admin/tasks?state=queued&kind=agent")["data"][0]
    page = window.open(f"/admin/tasks/{task['id']}")
    page.evaluate("window.isTheSamePage = true")
    window.button("Cancel").focus()
    stage.post(f"/admin/tasks/{task['id']}/cancel", {})
    page.locator("h1 .badge", has_text="cancelled").wait_for()
    window.button("Run again").wait_for()
    assert page.evaluate("window.isTheSamePage")
    assert page.evaluate("document.activeElement.textContent") == "Run again"
    assert page.locator("#fresh-told").text_content() == "cancelled"
