"""The list of a user's connections."""

import pytest

from access.audit import audit_log
from access.models import AuditEntry
from access.users import identity
from database.errors import DatabaseDown
from tests.gateway.calls import error
from tests.gateway.mcp.sign_in.browser_pages import connect, is_connected, leave
from tests.gateway.memory_client import MemoryClient, ok

pytestmark = pytest.mark.database

# The list of connections.


def test_user_lists_and_ends_connections(
    server, browser, protected, memory_client: MemoryClient, other_client: MemoryClient
):
    def states(memory_client: MemoryClient) -> dict[str, bool | None]:
        listed = memory_client.get("/v1/mcp")
        assert listed["object"] == "list"
        return {each["id"]: each["connected"] for each in listed["data"]}

    assert states(memory_client) == {"notes": False, "open": None}
    connect(browser, protected, memory_client.user)
    connect(browser, protected, other_client.user)
    assert states(memory_client) == {"notes": True, "open": None}
    before = len(protected.provider.revoked)
    ended = {"object": "mcp.server.deleted", "id": "notes", "deleted": True}
    assert ok(memory_client.send("DELETE", "/v1/mcp/notes")) == ended
    assert len(protected.provider.revoked) > before
    assert states(memory_client) == {"notes": False, "open": None}
    assert states(other_client) == {"notes": True, "open": None}
    again = ok(memory_client.send("DELETE", "/v1/mcp/notes"))
    assert again == {**ended, "deleted": False}
    user_id = identity.derive_user_id(memory_client.user)
    entries = AuditEntry.objects.filter(actor__contains=user_id).of_action("mcp")
    entries = entries.order_by("pk")
    assert [entry.action for entry in entries] == ["mcp.connect", "mcp.disconnect"]
    assert {entry.target for entry in entries} == {"mcp server notes"}
    assert {entry.origin for entry in entries} == {"127.0.0.1"}


def test_unauditable_connection_change_is_refused(
    server, browser, protected, memory_client: MemoryClient, monkeypatch
):
    def write(event):
        raise DatabaseDown

    with monkeypatch.context() as patch:
        patch.setattr(audit_log, "write", write)
        back = browser.get(protected.consent(leave(browser, memory_client.user)))
        assert back.status_code == 503
    assert not is_connected(memory_client.user)
    connect(browser, protected, memory_client.user)
    monkeypatch.setattr(audit_log, "write", write)
    assert memory_client.send("DELETE", "/v1/mcp/notes").status_code == 503
    assert is_connected(memory_client.user)


def test_disconnecting_unknown_server_is_404(server, memory_client):
    refusal = memory_client.refused("DELETE", "/v1/mcp/gone", 404)
    assert refusal["code"] == "mcp_server_unknown"


def test_connection_list_requires_a_user(server, http):
    assert error(http.get("/v1/mcp"), 400)["code"] == "user_required"
