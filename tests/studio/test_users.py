"""Users, as operators look at them."""

import re
import uuid

import pytest

from access import identity
from tests.gateway.calls import error
from tests.memory import lives

pytestmark = pytest.mark.database


@pytest.fixture
def alice(server, user):
    """A user of whom there is something of everything."""
    user_id = identity.derive(user)
    lives.live(user_id)
    return user_id


def test_users_are_listed_and_found_by_name_and_by_id(script, alice, user):
    listed = script.get("/admin/users").json()
    assert str(alice) in [each["id"] for each in listed["data"]]
    for wanted in (user, str(alice), str(alice)[:9]):
        (found,) = script.get("/admin/users", params={"q": wanted}).json()["data"]
        assert found["id"] == str(alice)
    (found,) = script.get("/admin/users", params={"q": user}).json()["data"]
    assert found["name"] == user
    assert (found["messages"], found["threads"], found["facts"]) == (8, 2, 1)


def test_pages(browser, alice):
    for path in ("", "/facts", "/scores", "/turns", "/threads", "/erase", "/facts?q=plums"):
        page = browser.get(f"/admin/users/{alice}{path}")
        assert page.status_code == 200, (path, page.text[:500])
    assert browser.get("/admin/users").status_code == 200
    assert browser.get("/admin/turns").status_code == 200
    assert browser.get("/admin/memory").status_code == 200
