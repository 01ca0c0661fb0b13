"""Facts can be added and searched, and users erased."""

from tests.browser.theatre import Theatre
from tests.browser.window import Window


def test_fact_can_be_found_and_a_user_erased(window: Window, stage: Theatre) -> None:
    user = next(user for user in stage.get("/admin/users")["data"] if user["facts"])
    page = window.open("/admin/users")
    page.locator(f"a[href='/admin/users/{user['id']}']").first.click()
    window.link("Memory").click()
    page.locator("textarea[name=content]").fill("Has a season ticket for the balcony.")
    window.button("Add fact").click()
    window.said("Has a season ticket for the balcony.")

    page.get_by_label("Search memory").fill("season ticket balcony")
    window.button("Search").click()
    first = page.locator("#studio article, #studio .fact").first
    assert "Has a season ticket for the balcony." in first.inner_text()

    window.link("Erase…").click()
    page.locator("table", has_text="Rows").wait_for()
    window.button("Erase permanently").click()
    window.said("rased")
    response = stage.http.get(f"/admin/users/{user['id']}")
    assert response.status_code == 404
    window.open("/admin/users")
    assert user["id"] not in page.content()
