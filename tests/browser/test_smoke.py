"""A smoke test is run, and watched until it has finished."""

from tests.browser.theatre import SAID, Theatre
from tests.browser.window import Window


def test_smoke_test_can_be_run_and_watched(window: Window, stage: Theatre) -> None:
    page = window.open("/admin/smoke")
    window.link("school-class").click()
    window.button("Run now").click()
    run = page.locator("#run")
    run.wait_for()
    assert window.path.startswith("/admin/smoke/runs/")
    # No page is loaded from here on.
    page.evaluate("window.isTheSamePage = true")
    run.get_by_text("When is the bus back?").wait_for()
    run.get_by_text(SAID).wait_for()
    run.get_by_text("Thank you.").wait_for()
    page.locator("[data-part=status] .badge", has_text="passed").wait_for()
    assert page.evaluate("window.isTheSamePage")

    batch = stage.get("/admin/smoke/school-class/runs")["data"][0]
    assert batch["passed"] == 1
    assert window.path.endswith(batch["runs"][0]["id"])
