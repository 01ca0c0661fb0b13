"""Internal errors and database outages are logged and shown."""

import logging

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError

from access.authentication import accounts
from studio.monitoring.home import HomeView

pytestmark = pytest.mark.database


def test_internal_error_is_logged_and_returned_in_requested_format(
    script, monkeypatch, caplog
):
    monkeypatch.setattr(HomeView, "template", "studio/no-such-template.html")
    with caplog.at_level(logging.ERROR):
        page = script.get("/admin/", headers={"Accept": "text/html"})
    assert page.status_code == 500
    assert "Server error" in page.text
    assert "TemplateDoesNotExist" in caplog.text
    monkeypatch.setattr(HomeView, "get", lambda self, request: 1 / 0)
    data = script.get("/admin/")
    assert data.status_code == 500
    assert data.json()["error"]["code"] == "internal_error"


@pytest.mark.parametrize("path", ["/admin/", "/admin/agents", "/admin/nowhere"])
def test_database_outage_is_shown_on_pages(script, monkeypatch, caplog, path):
    monkeypatch.setattr(accounts, "get_or_create_user", missing)
    page = script.get(path, headers={"Accept": "text/html"})
    assert page.status_code == 503
    assert "The database is unavailable" in page.text
    data = script.get(path)
    assert data.status_code == 503
    assert data.json()["error"]["type"] == "service_unavailable"
    assert "the studio cannot reach the database: it is away" in caplog.text
    assert "Traceback" not in caplog.text
    monkeypatch.undo()
    assert script.get("/admin/").status_code == 200


def missing(*given: object, **more: object) -> User:
    raise OperationalError("it is away\nor elsewhere")
