"""Requests to the studio reuse the database connections of its threads."""

from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from django.conf import settings
from django.db.backends.signals import connection_created

from studio.server import asgi_handler
from tests.gateway.calls import PATH, body

pytestmark = pytest.mark.database


@pytest.fixture
def opened():
    """The connections to the database that are opened meanwhile."""
    seen = []

    def note(connection, **more):
        seen.append(connection)

    connection_created.connect(note)
    yield seen
    connection_created.disconnect(note)


def test_requests_reuse_database_connections(server, client, user, opened):
    page = {"Accept": "text/html"}
    calls = [
        ("POST", PATH, {"json": body(user, stream=True)}),
        ("GET", "/v1/models", {}),
        ("POST", PATH, {"json": body(user)}),
        ("GET", "/health/ready", {}),
        *(("GET", place, {"headers": page}) for place in ("/admin/", "/admin/turns")),
        ("GET", "/admin/spend?format=csv", {}),
        ("GET", f"/admin/users/{user}/export", {}),
        ("GET", "/admin/static/studio/components.css", {}),
    ]

    def ask(call) -> int:
        method, place, more = call
        with httpx2.Client(base_url=server, timeout=60, verify=False) as http:
            return http.request(method, place, **more).status_code

    with ThreadPoolExecutor(6) as pool:
        responses = list(pool.map(ask, calls * 8))
    assert set(responses) == {200}
    threads = (
        settings.COULISSE_DATABASE_THREADS + asgi_handler._thread_pool._max_workers
    )
    assert len(opened) < 2 * threads  # Others may open one of theirs, too.
