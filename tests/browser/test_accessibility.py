"""What a reader of the screen, or of little sight, would stumble over on a page.

axe-core looks at one page of each kind, and at what is seen where nothing is or works.
"""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from access.errors import CredentialRequired
from gateway.auth import oidc_login
from tests.browser.places import PLACES, Place
from tests.browser.window import Window

ALL_RULES = {"resultTypes": ["violations"]}
BY_COLOUR = {**ALL_RULES, "runOnly": ["color-contrast"]}
LOOKED_AT = {
    *("agent", "agent-edit", "audit", "conversation", "experiment", "judge", "live"),
    *(
        "accounts",
        "overview",
        "playground",
        "section",
        "settings",
        "smoke-run",
        "spend",
    ),
    *("task", "tasks", "tokens", "turn", "users"),
    "coulisse-yaml",
}
LONG = {"audit", "tasks", "tokens", "users"}
EMPTY = Place("empty", "/admin/tasks?agent=nobody", "Tasks")

axe = Axe()


def stumbles(page: Any, options: dict[str, Any] = ALL_RULES) -> list[str]:
    """Return what axe finds, and where."""
    return [
        f"{each['impact']} {each['id']}: {node['target']} {node['html'][:120]}"
        for each in axe.run(page, options=options).response["violations"]
        for node in each["nodes"]
    ]


def darken(page: Any) -> None:
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("looking.isDark()")


@pytest.mark.parametrize(
    "place",
    [place for place in PLACES if place.name in LOOKED_AT] + [EMPTY],
    ids=lambda place: place.name,
)
def test_page_has_no_accessibility_violations(
    window: Window, names: dict[str, str], place: Place
) -> None:
    # One row is like the other.
    few = "?limit=10" if place.name in LONG else ""
    page = window.open(place.path.format_map(names) + few)
    window.settle()
    assert stumbles(page) == []
    darken(page)
    assert stumbles(page, BY_COLOUR) == []


def test_error_page_has_no_accessibility_violations(window: Window) -> None:
    page = window.open("/admin/nowhere")
    assert page.locator("h1").inner_text() == "Not found"
    assert stumbles(page) == []
    window.expects(404)


def test_login_refusal_has_no_accessibility_violations(window: Window) -> None:
    refused = oidc_login.login_failed_page(
        CredentialRequired("Log in first"), login_url="/admin/"
    )
    window.page.route(
        "**/admin/",
        lambda route: route.fulfill(
            status=401, headers=dict(refused.items()), body=refused.content
        ),
    )
    page = window.open("/admin/")
    assert page.locator("h1").inner_text() == "Login failed"
    assert stumbles(page) == []
    darken(page)
    assert stumbles(page, BY_COLOUR) == []
    window.expects(401)
