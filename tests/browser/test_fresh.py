"""Pages of what is under way look again by themselves."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from tests.browser.theatre import Theatre
from tests.browser.window import Window


def test_task_page_updates_its_state(window: Window, stage: Theatre) -> None:
    task = stage.get("/admin/tasks?state=queued&kind=agent")["data"][0]
    page = window.open(f"/admin/tasks/{task['id']}")
    page.evaluate("window.isTheSamePage = true")
    window.button("Cancel").focus()
    stage.post(f"/admin/tasks/{task['id']}/cancel", {})
    page.locator("h1 .badge", has_text="cancelled").wait_for()
    window.button("Run again").wait_for()
    assert page.evaluate("window.isTheSamePage")
    assert page.evaluate("document.activeElement.textContent") == "Run again"
    assert page.locator("#refresh-status").text_content() == "cancelled"


def test_unchanged_page_polls_less_often(window: Window, stage: Theatre) -> None:
    task = stage.get("/admin/tasks?state=queued&kind=agent")["data"][0]
    page, path = window.page, f"/admin/tasks/{task['id']}"
    page.clock.install()
    page.clock.pause_at(datetime.now(UTC) + timedelta(seconds=5))
    window.open(path)
    looks: list[str] = []
    page.on("request", lambda it: path in it.url and looks.append(it.url))

    def waits(pause: int) -> None:
        page.locator(f"#refresh-status[data-interval='{pause}']").wait_for(
            state="attached"
        )

    for pause, following in pairwise((2000, 3000, 4500, 6750, 10125, 15000)):
        waits(pause)
        page.clock.run_for(pause - 10)
        assert looks == []
        page.clock.run_for(10)
        waits(following)
        assert len(looks) == 1
        looks.clear()

    page.evaluate("window.dispatchEvent(new Event('focus'))")
    waits(3000)
    assert len(looks) == 1
    stage.post(f"{path}/cancel", {})
    page.clock.run_for(3000)
    page.locator("h1 .badge", has_text="cancelled").wait_for()
    waits(2000)
    page.clock.run_for(60_000)
    assert len(looks) == 2
