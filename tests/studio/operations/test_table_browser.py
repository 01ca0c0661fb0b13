"""The tables without a page of their own: read-only."""

import pytest

from access.tokens import api_tokens
from studio.operations import tables
from tests.access.actors import ADA

pytestmark = pytest.mark.database


@pytest.mark.parametrize(
    "model", tables.LIST_COLUMNS, ids=lambda model: model._meta.label
)
def test_table_is_listed_and_read_only(browser, script, model):
    path = f"/admin/tables/{model._meta.app_label}/{model._meta.model_name}"
    assert browser.get(path).status_code == 200
    assert browser.get(f"{path}/add").status_code == 404
    assert script.patch(f"{path}/1", json={}).status_code == 405
    assert script.delete(f"{path}/1").status_code == 405


def test_token_row_hides_its_digest(browser, script):
    row, _ = api_tokens.create_token("shown", "alice", by=ADA)
    page = browser.get(f"/admin/tokens/{row.pk}")
    assert page.status_code == 200
    assert "shown" in page.text
    assert row.digest not in page.text
    assert row.digest not in script.get(f"/admin/tokens/{row.pk}").text


def test_index_lists_the_tables(browser):
    page = browser.get("/admin/tables").text
    assert ">Summaries<" in page
    assert page.count("<h1>") == 1


def test_other_addresses_are_missing(browser):
    missing = browser.get("/admin/tables/access")
    assert missing.status_code == 404
    assert 'id="nav-sidebar"' in missing.text
