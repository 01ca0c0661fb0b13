"""MCP servers in the studio: their tools and connected users."""

import socket
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection

from access.models import AuditEntry
from config import live
from mcp_bridge.client.target import ServerTarget
from mcp_bridge.config import MCP
from mcp_bridge.errors import ServerGone
from mcp_bridge.models import McpToken
from studio.server import event_loop_bridge
from tests import mcp_bridge
from tests.conftest import CONFIG
from tests.gateway.calls import error
from turns.tools.mcp_sessions import POOL, TOKEN_MANAGER

pytestmark = pytest.mark.database

CHILD = Path(mcp_bridge.__file__).with_name("raw_stdio_server.py")
SERVERS = f"""
mcp:
  child: {{command: {sys.executable}, args: ["{CHILD}"]}}
  gone: {{url: "http://127.0.0.1:9/mcp", oauth: false}}
  notes: {{url: "http://127.0.0.1:9/notes"}}
"""
AT = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def script(server, configure, script):
    configure(CONFIG + SERVERS)
    McpToken.objects.filter(server="notes").delete()
    return script


def connect(number=0, *, server="notes", renews=True, ends=AT):
    user_id = uuid.uuid4()
    at = AT + timedelta(minutes=number)
    McpToken.objects.create(
        server=server,
        resource="http://127.0.0.1:9/notes",
        user_id=user_id,
        key_id="key",
        access_token=b"a-hidden-token",
        refresh_token=b"a-hidden-refresh" if renews else None,
        scopes="read write",
        expires_at=ends,
        created_at=at,
        updated_at=at,
    )
    return str(user_id)


def test_tools_are_listed_after_the_server_was_opened(script):
    before = script.get("/admin/mcp/child/tools").json()
    assert (before["state"], before["tools"]) == ("idle", [])
    checked = script.post("/admin/mcp/child/tools").json()
    assert checked["state"] == "open"
    assert "echo" in [tool["name"] for tool in checked["tools"]]
    assert checked["tools"][0]["parameters"]["type"] == "object"
    assert script.get("/admin/mcp/child/tools").json() == checked


def test_unreachable_server_reports_its_error_each_time(script):
    for _ in range(2):
        data = script.post("/admin/mcp/gone/tools").json()
        assert data["state"] == "failed"
        assert "cannot be reached" in data["error"]
    assert script.get("/admin/mcp/gone/tools").json()["state"] == "failed"


def test_output_of_a_failed_server_is_shown(configure, script, browser):
    configure(
        f"{CONFIG}mcp:\n  dies: {{command: {sys.executable}, "
        f'args: ["{CHILD}", exit], env: {{KEY: q7Vd2mXw9Lr4TzK8bNf3HcYs}}}}\n'
    )
    for data in (
        script.post("/admin/mcp/dies/tools").json(),
        script.get("/admin/mcp/dies/tools").json(),
    ):
        assert data["error"].endswith("ended with exit code 4")
        assert data["last_lines"] == ["the key *** is wrong"]
    page = browser.get("/admin/mcp/dies").text
    assert "Last output" in page
    assert "the key *** is wrong" in page


async def call(name, tool):
    config = live.current()
    address = ServerTarget(name, config.get(MCP)[name], config.path.parent)
    with suppress(ServerGone):
        async with POOL.session(address) as session:
            await session.call(tool, {})


def test_output_of_a_server_that_exited_later_is_shown(script, browser):
    assert script.post("/admin/mcp/child/tools").json()["state"] == "open"
    event_loop_bridge.run_external(call("child", "die"))
    data = script.get("/admin/mcp/child/tools").json()
    assert data["state"] == "failed"
    assert data["error"].endswith("ended with exit code 3")
    assert data["last_lines"] == ["I cannot go on"]
    assert "I cannot go on" in browser.get("/admin/mcp/child").text
    assert script.post("/admin/mcp/child/tools").json()["last_lines"] == []


@pytest.mark.parametrize(
    ("name", "message", "colour"),
    [("gone", "is unreachable", "bg-red"), ("child", "has ", "bg-green")],
)
def test_browser_sees_the_result(script, browser, name, message, colour):
    page = browser.submit(
        f"/admin/mcp/{name}/tools", {}, form_page=f"/admin/mcp/{name}"
    )
    data = page.text.partition('role="status"')[2].partition("</ul>")[0]
    assert f"&#x27;{name}&#x27; {message}" in data
    assert colour in data


def test_hanging_servers_do_not_block_the_studio(configure, script):
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            for _ in range(event_loop_bridge.MAX_WAITING_THREADS)
        ]
        at = [each.getsockname()[1] for each in silent]
        servers = [
            f"  s{port}: {{url: 'http://127.0.0.1:{port}/mcp', oauth: false}}\n"
            for port in at
        ]
        configure(f"{CONFIG}mcp:\n{''.join(servers)}")
        pool = stack.enter_context(ThreadPoolExecutor())
        looks = [pool.submit(script.post, f"/admin/mcp/s{port}/tools") for port in at]
        heard = [each.accept()[0] for each in silent]
        refused = error(script.post(f"/admin/mcp/s{at[0]}/tools"), 503)
        assert refused["code"] == "too_many_asked"
        assert script.get("/admin/mcp").status_code == 200
        for each in (*heard, *silent):
            each.close()
        assert [look.result().json()["state"] for look in looks] == ["failed"] * 2
    assert script.post(f"/admin/mcp/s{at[0]}/tools").json()["state"] == "failed"


def test_repaired_server_is_reached_at_once(configure, script, tmp_path):
    program = tmp_path / "late"
    configure(f"{CONFIG}mcp: {{late: {{command: {program}}}}}\n")
    assert script.post("/admin/mcp/late/tools").json()["state"] == "failed"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "{CHILD}"\n')
    program.chmod(0o700)
    assert script.post("/admin/mcp/late/tools").json()["state"] == "open"


def test_server_with_sign_in_is_not_opened(script):
    data = script.post("/admin/mcp/notes/tools").json()
    assert (data["requires_sign_in"], data["state"], data["tools"]) == (
        True,
        "idle",
        [],
    )


def test_unknown_server_is_404(script):
    for what in ("tools", "connections"):
        response = script.get(f"/admin/mcp/none/{what}")
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "mcp_server_unknown"


def test_connections_are_listed_without_tokens(script, browser):
    expired = connect(1, renews=False, ends=AT)
    lasting = connect(2)
    response = script.get("/admin/mcp/notes/connections")
    data = response.json()["data"]
    assert [(user["user_id"], user["is_expired"]) for user in data] == [
        (lasting, False),
        (expired, True),
    ]
    page = browser.get("/admin/mcp/notes/connections")
    for text in (response.text, page.text):
        assert lasting in text
        assert "a-hidden-token" not in text


def test_connection_pages_are_contiguous(script):
    users = [connect(number) for number in range(5)]
    connect(6, server="other")
    after, seen = "", []
    for _ in range(3):
        page = script.get(
            "/admin/mcp/notes/connections", params={"limit": 2, "after": after}
        ).json()
        seen += [user["user_id"] for user in page["data"]]
        after = page["last_id"]
    assert seen == users[::-1]
    assert not page["has_more"]


def test_action_disconnects_users_and_revokes_tokens(script, monkeypatch):
    revoked = []

    async def revoke(config, token):
        assert not connection.in_atomic_block
        revoked.append(str(token.user_id))

    monkeypatch.setattr(TOKEN_MANAGER, "revoke", revoke)
    users = {connect(), connect()}
    rows = script.get("/admin/mcp-sign-ins?server=notes").json()["data"]
    ids = [str(row["id"]) for row in rows]
    done = script.post("/admin/mcp-sign-ins?action=disconnect", json={"ids": ids})
    assert [each["is_changed"] for each in done.json()["data"]] == [True, True]
    assert set(revoked) == users
    assert script.get("/admin/mcp-sign-ins?server=notes").json()["data"] == []


def test_disconnecting_a_user_is_audited(script, browser):
    user, other = connect(), connect()
    place = "/admin/mcp/notes/connections"
    page = browser.submit(
        f"{place}/{user}", {"_method": "DELETE"}, form_page="/admin/mcp/notes"
    )
    assert "User disconnected" in page.text
    assert script.delete(f"{place}/{other}").json()["deleted"]
    assert not McpToken.objects.filter(server="notes").exists()
    entry = AuditEntry.objects.filter(action="mcp.disconnect").latest("at")
    assert (entry.actor, entry.details) == ("studio: local", {"user": other})
    response = script.delete(f"{place}/{other}")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_connected"


def test_server_page_shows_tools_and_connections(script, browser):
    user = connect()
    script.post("/admin/mcp/child/tools")
    page = browser.get("/admin/mcp/child").text
    assert "<code>echo</code>" in page
    page = browser.get("/admin/mcp/notes").text
    assert user in page
    assert '<span class="badge is-good">open</span>' in browser.get("/admin/mcp").text


def test_viewers_cannot_disconnect(viewer):
    path = f"/admin/mcp/notes/connections/{uuid.uuid4()}"
    assert viewer.delete(path).status_code == 403
    assert viewer.post("/admin/mcp/notes/tools").status_code == 403
