"""The table browser: read-only, and for operators."""

import re
from datetime import UTC, datetime

import pytest

from access.tokens import api_tokens
from studio.operations import table_browser
from tests.access.actors import ADA

pytestmark = pytest.mark.database


@pytest.mark.parametrize(
    "model", table_browser.LIST_COLUMNS, ids=lambda model: model._meta.label
)
def test_table_is_listed_and_read_only(browser, model):
    path = f"/admin/tables/{model._meta.app_label}/{model._meta.model_name}/"
    page = browser.get(path)
    assert page.status_code == 200
    assert browser.get(f"{path}add/").status_code == 403


def test_token_row_hides_its_digest(browser):
    row, _ = api_tokens.create_token("shown", "alice", by=ADA)
    path = f"/admin/tables/access/apitoken/{row.pk}/change/"
    page = browser.get(path)
    assert page.status_code == 200
    assert "shown" in page.text
    assert row.digest not in page.text
    changed = browser.submit(path, {"label": "other"}, form_page="/admin/tokens")
    assert changed.status_code == 403


def test_index_lists_the_tables(browser):
    page = browser.get("/admin/tables/").text
    assert ">Audit entries<" in page
    assert ">Feedback<" in page
    assert ">Summaries<" in page
    assert page.count("<h1>") == 1


def test_table_page_has_a_title_and_breadcrumbs(browser):
    page = browser.get("/admin/tables/access/auditentry/").text
    assert "<title>" in page
    assert "Audit entries · Coulisse" in page
    assert "<h1>Audit entries</h1>" in page
    assert '<a href="/admin/tables/">Tables</a>' in page


def test_other_admin_pages_redirect_to_the_studio(browser):
    for path, place in [
        ("login/", "/admin/"),
        ("access/", "/admin/tables/"),
    ]:
        response = browser.get(f"/admin/tables/{path}")
        assert response.headers["Location"] == place, path
    missing = browser.get("/admin/tables/password_change/")
    assert missing.status_code == 404
    assert "Table or page not found" in missing.text
    assert 'id="nav-sidebar"' in missing.text


def test_times_use_the_studios_format(browser):
    api_tokens.create_token("dated", "alice", by=ADA)
    page = browser.get("/admin/tables/access/auditentry/").text
    year = datetime.now(UTC).year
    assert re.search(rf">{year}-\d\d-\d\d \d\d:\d\d:\d\d<", page)
    assert not re.search(r"[ap]\.m\.|midnight|noon", page)


def test_tables_require_the_operator_role(viewer):
    html = {"Accept": "text/html"}
    table = "/admin/tables/access/apitoken/"
    refused = viewer.get(table, headers=html)
    assert refused.status_code == 403
    assert "Only operators may view tables" in refused.text
    assert 'id="nav-sidebar"' in refused.text
    assert viewer.get(table).json()["error"]["type"] == "permission_error"
