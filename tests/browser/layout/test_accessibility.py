"""Accessibility checks with axe-core: one page of each kind, and error pages."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from access.errors import CredentialRequired
from gateway.auth import oidc_login
from tests.browser.harness.browser_window import BrowserWindow
from tests.browser.harness.studio_pages import PAGES, StudioPage

ALL_RULES = {"resultTypes": ["violations"]}
CONTRAST_RULES = {**ALL_RULES, "runOnly": ["color-contrast"]}
CHECKED = {
    "accounts",
    "agent",
    "agent-edit",
    "audit",
    "conversation",
    "coulisse-yaml",
    "experiment",
    "judge",
    "live",
    "overview",
    "periodic-task-new",
    "periodic-tasks",
    "playground",
    "section",
    "settings",
    "smoke-run",
    "spend",
    "task",
    "tasks",
    "tokens",
    "turn",
    "users",
}
LONG_LISTS = {"audit", "tasks", "tokens", "users"}
EMPTY_LIST = StudioPage("empty", "/admin/tasks?agent=nobody", "Tasks")

axe = Axe()


def violations(page: Any, options: dict[str, Any] = ALL_RULES) -> list[str]:
    """Return axe's violations: impact, rule and element."""
    return [
        f"{rule['impact']} {rule['id']}: {node['target']} {node['html'][:120]}"
        for rule in axe.run(page, options=options).response["violations"]
        for node in rule["nodes"]
    ]


def use_dark_mode(page: Any) -> None:
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("layoutChecks.isDark()")


@pytest.mark.parametrize(
    "studio_page",
    [studio_page for studio_page in PAGES if studio_page.name in CHECKED]
    + [EMPTY_LIST],
    ids=lambda studio_page: studio_page.name,
)
def test_page_has_no_accessibility_violations(
    window: BrowserWindow, path_parameters: dict[str, str], studio_page: StudioPage
) -> None:
    # Ten rows are enough: all have the same markup.
    query = "?limit=10" if studio_page.name in LONG_LISTS else ""
    page = window.open(studio_page.path.format_map(path_parameters) + query)
    window.wait_until_rendered()
    assert violations(page) == []
    use_dark_mode(page)
    assert violations(page, CONTRAST_RULES) == []


def test_error_page_has_no_accessibility_violations(window: BrowserWindow) -> None:
    page = window.open("/admin/nowhere")
    assert page.locator("h1").inner_text() == "Not found"
    assert violations(page) == []
    window.ignore_status(404)


def test_login_error_has_no_accessibility_violations(window: BrowserWindow) -> None:
    response = oidc_login.login_failed_page(
        CredentialRequired("Log in first"), login_url="/admin/"
    )
    window.page.route(
        "**/admin/",
        lambda route: route.fulfill(
            status=401, headers=dict(response.items()), body=response.content
        ),
    )
    page = window.open("/admin/")
    assert page.locator("h1").inner_text() == "Login failed"
    assert violations(page) == []
    use_dark_mode(page)
    assert violations(page, CONTRAST_RULES) == []
    window.ignore_status(401)
