"""The tables as they are: read by operators, changed by nobody."""

import pytest

from access import tokens
from studio import tables
from tests.access.authors import ADA

pytestmark = pytest.mark.database


@pytest.mark.parametrize("model", tables.SHOWN, ids=lambda model: model._meta.label)
def test_each_is_listed(browser, model):
    path = f"/admin/tables/{model._meta.app_label}/{model._meta.model_name}/"
    page = browser.get(path)
    assert page.status_code == 200
    assert browser.get(f"{path}add/").status_code == 403


def test_a_row_is_shown_without_what_stands_for_a_secret(browser):
    row, _ = tokens.mint("shown", "alice", by=ADA)
    path = f"/admin/tables/access/token/{row.pk}/change/"
    page = browser.get(path)
    assert page.status_code == 200
    assert "shown" in page.text
    assert row.digest not in page.text
    changed = browser.submit(path, {"label": "other"}, of="/admin/tokens")
    assert changed.status_code == 403


def test_they_are_listed(browser):
    assert "Feedbacks" in browser.get("/admin/tables/").text


def test_they_are_for_operators(viewer):
    html = {"Accept": "text/html"}
    table = "/admin/tables/access/token/"
    assert viewer.get(table, headers=html).status_code == 403
