"""Facts can be added and searched, and users erased."""

from tests.browser.harness.browser_window import BrowserWindow
from tests.browser.harness.demo_server import DemoServer


def test_fact_can_be_found_and_user_erased(
    window: BrowserWindow, demo_server: DemoServer
) -> None:
    user = next(
        user for user in demo_server.get("/admin/users")["data"] if user["facts"]
    )
    page = window.open("/admin/users")
    page.locator(f"a[href='/admin/users/{user['id']}']").first.click()
    window.link("Memory").click()
    page.locator("textarea[name=content]").fill("Has a season ticket for the balcony.")
    window.button("Add fact").click()
    window.wait_for_text("Has a season ticket for the balcony.")

    window.open(f"/admin/users/{user['id']}/facts")
    page.get_by_label("Search", exact=True).fill("season ticket balcony")
    window.button("Filter").click()
    first = page.locator("#studio article, #studio .fact").first
    assert "Has a season ticket for the balcony." in first.inner_text()

    window.link("Conversation").click()
    window.link("Erase…").click()
    page.locator("table", has_text="Rows").wait_for()
    window.button("Erase permanently").click()
    window.wait_for_text("rased")
    response = demo_server.http.get(f"/admin/users/{user['id']}")
    assert response.status_code == 404
    window.open("/admin/users")
    assert user["id"] not in page.content()
