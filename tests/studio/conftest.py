"""Clients of the studio: scripts, a browser, a viewer and an operator."""

import importlib
import re

import httpx2
import pytest

from access.authentication import accounts, roles
from tests.conftest import CONFIG

TWO_PEOPLE = (
    CONFIG
    + """
auth:
  admin:
    basic:
      - {username: olga, password: operates-it-all}
      - {username: vera, password: only-views-it}
"""
)


@pytest.fixture(scope="session", autouse=True)
def registered_tables() -> None:
    """Register the tables, as the server does at its first page."""
    importlib.import_module("coulisse_site.studio_urls")


class Browser:
    """Sends requests like a browser: for pages, with the origin of its forms."""

    def __init__(self, url: str, auth=None) -> None:
        headers = {
            "Accept": "text/html",
            "Origin": url,
            "Sec-Fetch-Site": "same-origin",
        }
        self.http = httpx2.Client(
            base_url=url, timeout=60, verify=False, headers=headers, auth=auth
        )

    def get(self, path: str, **options):
        return self.http.get(path, **options)

    def submit(self, path: str, fields: dict, *, form_page: str | None = None):
        """Send the form of a page with its CSRF token."""
        page = self.http.get(form_page or path).text
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert token, f"no form on {form_page or path}"
        return self.http.post(
            path,
            data={"csrfmiddlewaretoken": token[1], **fields},
            follow_redirects=True,
        )


@pytest.fixture
def script(server):
    """A script on this machine, with the operator role."""
    with httpx2.Client(base_url=server, timeout=60, verify=False) as http:
        yield http


@pytest.fixture
def browser(server):
    """A browser on this machine, with the operator role."""
    browser = Browser(server)
    yield browser
    browser.http.close()


@pytest.fixture
def viewer(running, configure):
    """A script with the viewer role."""
    configure(TWO_PEOPLE)
    roles.set_role(accounts.get_or_create_user("vera"), roles.Role.VIEWER)
    with httpx2.Client(
        base_url=running, timeout=60, verify=False, auth=("vera", "only-views-it")
    ) as http:
        yield http


@pytest.fixture
def operator(running, viewer):
    """A script with the operator role, in the configuration of the viewer."""
    with httpx2.Client(
        base_url=running, timeout=60, verify=False, auth=("olga", "operates-it-all")
    ) as http:
        yield http
