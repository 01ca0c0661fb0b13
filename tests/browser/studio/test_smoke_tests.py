"""A smoke test can be run, and its page follows the run."""

from tests.browser.harness.browser_window import BrowserWindow
from tests.browser.harness.demo_server import REPLY, DemoServer


def test_smoke_test_can_be_run_and_watched(
    window: BrowserWindow, demo_server: DemoServer
) -> None:
    page = window.open("/admin/smoke")
    window.link("school-class").click()
    window.button("Run now").click()
    run = page.locator("#run")
    run.wait_for()
    assert window.path.startswith("/admin/smoke/runs/")
    # The variable is lost if the page is loaded again.
    page.evaluate("window.isTheSamePage = true")
    run.get_by_text("When is the bus back?").wait_for()
    run.get_by_text(REPLY).wait_for()
    run.get_by_text("Thank you.").wait_for()
    page.locator("[data-part=status] .badge", has_text="passed").wait_for()
    assert page.evaluate("window.isTheSamePage")

    batch = demo_server.get("/admin/smoke/school-class/runs")["data"][0]
    assert batch["passed"] == 1
    assert window.path.endswith(batch["runs"][0]["id"])
