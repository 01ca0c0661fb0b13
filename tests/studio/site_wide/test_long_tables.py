"""Lists of long tables run no count, offset or sort."""

import re

import pytest
from django.db import connection

from access.users import identity
from studio.operations import tables
from studio.server.asgi_handler import StudioHandler
from tests.memory.user_data import sample_user
from tests.studio.site_wide.test_addresses import VIEWS

pytestmark = pytest.mark.database

READS_ALL = re.compile(
    r'SELECT COUNT\(\*\) AS "__count" FROM "\w+"$|\bOFFSET [1-9]', re.IGNORECASE
)


@pytest.fixture
def statements(monkeypatch):
    """The SQL statements of the studio."""
    seen = []
    get_response = StudioHandler.get_response

    def watch(self, request):
        def note(execute, sql, parameters, many, context):
            seen.append(sql)
            return execute(sql, parameters, many, context)

        with connection.execute_wrapper(note):
            return get_response(self, request)

    monkeypatch.setattr(StudioHandler, "get_response", watch)
    return seen


def test_no_page_scans_a_whole_table(browser, statements):
    seen = {}
    for path, _, methods in VIEWS:
        if "GET" in methods:
            statements.clear()
            browser.get(path)
            seen[path] = [each for each in statements if READS_ALL.search(each)]
    assert len(seen) > 50
    assert {path: found for path, found in seen.items() if found} == {}


@pytest.mark.parametrize(
    "model", tables.LIST_COLUMNS, ids=lambda model: model._meta.label
)
def test_rows_are_ordered_by_primary_key(browser, statements, user, model):
    path = f"/admin/tables/{model._meta.app_label}/{model._meta.model_name}"
    sample_user.store_user_data(identity.derive_user_id(user))
    for query in ("", "?limit=1"):
        statements.clear()
        assert browser.get(f"{path}{query}").status_code == 200
        (rows,) = [
            each for each in statements if f'FROM "{model._meta.db_table}"' in each
        ]
        assert not READS_ALL.search(rows)
        pk = model._meta.pk.column
        assert f'ORDER BY "{model._meta.db_table}"."{pk}" DESC' in rows
        assert "," not in rows.partition(" DESC")[2]
        listed = {
            model._meta.get_field(name).column for name in tables.LIST_COLUMNS[model]
        }
        read = set(re.findall(r'"\."(\w+)"', rows.partition(" FROM ")[0]))
        assert read == {pk, *listed}
