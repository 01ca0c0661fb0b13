"""A fault of ours: logged whole, and told as one."""

import logging

import pytest

from studio.home import Home

pytestmark = pytest.mark.database


def test_a_fault_is_logged_and_told_in_the_face_that_was_asked_for(
    script, monkeypatch, caplog
):
    monkeypatch.setattr(Home, "template", "studio/no-such-template.html")
    with caplog.at_level(logging.ERROR):
        page = script.get("/admin/", headers={"Accept": "text/html"})
    assert page.status_code == 500
    assert "That failed" in page.text
    assert "TemplateDoesNotExist" in caplog.text
    monkeypatch.setattr(Home, "get", lambda self, request: 1 / 0)
    told = script.get("/admin/")
    assert told.status_code == 500
    assert told.json()["error"]["code"] == "internal_error"
