"""Pages of queued and running work refresh themselves."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from tests.browser.harness.browser_window import BrowserWindow
from tests.browser.harness.demo_server import DemoServer


def test_task_page_updates_its_state(
    window: BrowserWindow, demo_server: DemoServer
) -> None:
    task = demo_server.get("/admin/tasks?state=queued&kind=agent")["data"][0]
    page = window.open(f"/admin/tasks/{task['id']}")
    page.evaluate("window.isTheSamePage = true")
    window.button("Cancel").focus()
    demo_server.post(f"/admin/tasks/{task['id']}/cancel", {})
    page.locator("h1 .badge", has_text="cancelled").wait_for()
    window.button("Retry").wait_for()
    assert page.evaluate("window.isTheSamePage")
    assert page.evaluate("document.activeElement.textContent") == "Retry"
    assert page.locator("#refresh-status").text_content() == "cancelled"


def test_unchanged_page_polls_less_often(
    window: BrowserWindow, demo_server: DemoServer
) -> None:
    task = demo_server.get("/admin/tasks?state=queued&kind=agent")["data"][0]
    page, path = window.page, f"/admin/tasks/{task['id']}"
    page.clock.install()
    page.clock.pause_at(datetime.now(UTC) + timedelta(seconds=5))
    window.open(path)
    requests: list[str] = []
    page.on(
        "request", lambda request: path in request.url and requests.append(request.url)
    )

    def wait_for_interval(milliseconds: int) -> None:
        page.locator(f"#refresh-status[data-interval='{milliseconds}']").wait_for(
            state="attached"
        )

    for interval, next_interval in pairwise((2000, 3000, 4500, 6750, 10125, 15000)):
        wait_for_interval(interval)
        page.clock.run_for(interval - 10)
        assert requests == []
        page.clock.run_for(10)
        wait_for_interval(next_interval)
        assert len(requests) == 1
        requests.clear()

    page.evaluate("window.dispatchEvent(new Event('focus'))")
    wait_for_interval(3000)
    assert len(requests) == 1
    demo_server.post(f"{path}/cancel", {})
    page.clock.run_for(3000)
    page.locator("h1 .badge", has_text="cancelled").wait_for()
    wait_for_interval(2000)
    page.clock.run_for(60_000)
    assert len(requests) == 2
