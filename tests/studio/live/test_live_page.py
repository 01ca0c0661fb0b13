"""The live page: its state as JSON, and its websocket."""

import asyncio
import contextlib
import json
import threading
import time
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from access.users.identity import derive_user_id
from coulisse_site.asgi import application
from studio.live import broadcaster, recent_activity, websocket
from studio.live import views as face
from tasks.models import Task
from telemetry.live_turns import live_publisher, running_turn_serializer
from telemetry.live_turns.active_turns import ACTIVE_TURNS, ActiveTurns
from tests.conftest import CONFIG, serve
from tests.gateway.calls import basic
from tests.telemetry.test_active_turns import make_turn
from tests.turns.test_live_turns import ask

pytestmark = pytest.mark.database

BASIC = CONFIG + "auth: {admin: {basic: {password: open-the-studio}}}\n"
JSON = {"Accept": "application/json"}


@pytest.fixture(autouse=True)
def _short_intervals(monkeypatch):
    monkeypatch.setattr(broadcaster, "FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(broadcaster, "ROWS_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(live_publisher, "FLUSH_SECONDS", 0.01)


@pytest.fixture
def http(running):
    with httpx2.Client(base_url=running, timeout=60, verify=False) as http:
        yield http


def open_socket(running, **options):
    address = running.replace("http://", "ws://") + websocket.SOCKET_PATH
    return connect(address, open_timeout=60, close_timeout=2, **options)


class LivePage:
    """The state that a page shows: the snapshot and all changes."""

    def __init__(self, ws):
        self._ws = ws
        self.turns, self.finished, self.count = {}, [], None

    def read(self):
        message = json.loads(self._ws.recv(timeout=60))
        if message["type"] == "snapshot":
            self.turns = {turn["id"]: turn for turn in message["turns"]}
        else:
            changed = {**self.turns, **message["turns"]}
            self.turns = {key: turn for key, turn in changed.items() if turn}
        self.finished = message.get("finished", self.finished)
        self.count = message["count"]
        return message

    def read_until(self, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline
            self.read()


def run_in_thread(function, *args):
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    return thread


@pytest.fixture(autouse=True)
def _wait_for_running_turns():
    """Wait for the turns of other tests."""
    wait_for(lambda: ACTIVE_TURNS.count() == 0)


def test_live_state_is_returned_as_json(server, http, client, user):
    reply = ask(client, user)
    wait_for(lambda: http.get("/admin/live", headers=JSON).json()["turns"] == [])
    data = http.get("/admin/live", headers=JSON).json()
    assert data["object"] == "live"
    assert data["finished"][0]["completion_id"] == reply.id
    assert data["tasks"].keys() == {"counts", "has_more", "open", "ended"}
    assert (data["turns"], data["count"], data["processes"]) == ([], 0, 1)
    face.LiveState.model_validate(data)


def test_watcher_receives_a_snapshot_and_then_changes(
    server, running, client, fake, user
):
    fake.hang()
    with open_socket(running) as ws:
        live_page = LivePage(ws)
        assert live_page.read()["type"] == "snapshot"
        assert live_page.turns == {}
        call = run_in_thread(ask, client, user)
        live_page.read_until(lambda: live_page.turns)
        ((turn_id, turn),) = live_page.turns.items()
        assert (turn["agent"], turn["current_step"]["kind"]) == ("assistant", "model")
        assert live_page.count == 1
        fake.release()
        live_page.read_until(lambda: not live_page.turns)
        live_page.read_until(
            lambda: turn_id in [data["id"] for data in live_page.finished]
        )
        call.join(60)


def test_late_watcher_receives_running_turns(server, running, client, fake, user):
    fake.hang()
    call = run_in_thread(ask, client, user)
    fake.wait(lambda: fake.requests)
    with open_socket(running) as ws:
        live_page = LivePage(ws)
        live_page.read_until(lambda: live_page.turns)
        with open_socket(running) as other:
            later = LivePage(other)
            later.read()
            assert later.turns.keys() == live_page.turns.keys()
    fake.release()
    call.join(60)


def test_plain_http_request_is_426(server, http):
    upgrade_response = http.get(websocket.SOCKET_PATH)
    assert upgrade_response.status_code == 426
    assert upgrade_response.headers["Upgrade"] == "websocket"
    assert "/admin/live" in upgrade_response.text


def test_foreign_origins_are_refused(server, running):
    for origin in ("http://evil.example", "null"):
        with (
            pytest.raises(InvalidStatus) as refusal_page,
            open_socket(running, origin=origin),
        ):
            pass
        assert refusal_page.value.response.status_code == 403
    with open_socket(running, origin=running) as ws:
        assert json.loads(ws.recv(timeout=60))["type"] == "snapshot"


def test_unauthenticated_websocket_is_refused(configure, running):
    configure(BASIC)
    with pytest.raises(InvalidStatus) as refusal_page, open_socket(running):
        pass
    assert refusal_page.value.response.status_code == 403
    headers = basic("admin", "open-the-studio")
    with open_socket(running, additional_headers=headers) as ws:
        assert json.loads(ws.recv(timeout=60))["type"] == "snapshot"


def test_proxied_websocket_is_refused(server, running):
    headers = {"X-Forwarded-For": "127.0.0.1"}
    with pytest.raises(InvalidStatus), open_socket(running, additional_headers=headers):
        pass


def test_other_websocket_paths_are_refused(server, running):
    address = running.replace("http://", "ws://")
    for path in ("/", "/v1/chat/completions", "/admin/", "/admin/live/events/"):
        with pytest.raises(InvalidStatus), connect(address + path):
            pass


def test_websocket_closes_when_access_ends(configure, running, monkeypatch):
    monkeypatch.setattr(websocket, "RECHECK_SECONDS", 0.02)
    configure(CONFIG)
    with open_socket(running) as ws:
        ws.recv(timeout=60)
        configure(BASIC)
        with pytest.raises(ConnectionClosed) as closed:
            LivePage(ws).read_until(lambda: False)
        assert closed.value.rcvd.code == websocket.CLOSE_FORBIDDEN


def test_disconnected_watcher_is_removed(server, running):
    watching = broadcaster.current()
    with open_socket(running) as ws:
        ws.recv(timeout=60)
        wait_for(lambda: len(watching._watchers) == 1)
    wait_for(lambda: not watching._watchers)
    watching._polled_until = -1.0  # Another test asked.
    wait_for(lambda: not watching._publisher._handlers)
    assert not watching._watchers


async def test_disconnect_during_a_send_is_not_logged(server, caplog):
    scope = {"type": "websocket", "path": websocket.SOCKET_PATH, "query_string": b""}
    scope |= {"client": ["127.0.0.1", 1], "headers": [(b"host", b"127.0.0.1")]}
    data = []
    heard = asyncio.Queue()
    heard.put_nowait({"type": "websocket.connect"})

    async def send(message):
        data.append(message["type"])
        if message["type"] == "websocket.send":
            heard.put_nowait({"type": "websocket.disconnect", "code": 1006})
            raise OSError("gone")

    await asyncio.wait_for(application(scope, heard.get, send), 10)
    assert data == ["websocket.accept", "websocket.send"]
    assert "live websocket failed" not in caplog.text


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


async def test_slow_watcher_receives_a_new_snapshot():
    class SnapshotSource:
        count = 0

        async def snapshot_message(self):
            self.count += 1
            return f"snapshot {self.count}"

    data = SnapshotSource()
    watcher = broadcaster.LiveWatcher(data)
    messages = watcher.messages()
    assert await anext(messages) == "snapshot 1"
    watcher.enqueue("first")
    assert await anext(messages) == "first"
    for number in range(broadcaster.MAX_QUEUED_MESSAGES + 100):
        watcher.enqueue(str(number))
    assert await anext(messages) == "snapshot 2"
    watcher.enqueue("later")
    assert await anext(messages) == "later"
    await messages.aclose()


async def test_silent_process_is_removed(monkeypatch):
    data = running_turn()
    missing = {data["id"]: None}
    frame = live_publisher.ProcessUpdate(
        "worker", True, {data["id"]: data}, 1, False, False
    )
    watching = broadcaster.LiveBroadcaster(
        live_publisher.LivePublisher(ActiveTurns(), layer=lambda: None)
    )
    watching.start()
    try:
        async with asyncio.timeout(60):
            with watching.add_watcher() as watcher:
                messages = watcher.messages()
                await anext(messages)
                watching._apply_update(frame)
                while json.loads(await anext(messages))["turns"] != {data["id"]: data}:
                    pass
                monkeypatch.setattr(broadcaster, "PROCESS_TIMEOUT_SECONDS", 0.0)
                while (change := json.loads(await anext(messages)))["turns"] != missing:
                    pass
                assert change["count"] == 0
    finally:
        await watching.stop()


def running_turn():
    return running_turn_serializer.serialize_turn(make_turn())


def test_server_shutdown_closes_websockets(database):
    with serve("coulisse_site.asgi:application", grace_seconds=30) as url:
        ws = open_socket(url)
        with ws:
            json.loads(ws.recv(timeout=60))
            began = time.monotonic()
            ending = run_in_thread(read_until_closed, ws)
    ending.join(60)
    assert not ending.is_alive()
    assert time.monotonic() - began < 20


def read_until_closed(ws):
    with contextlib.suppress(ConnectionClosed):
        LivePage(ws).read_until(lambda: False)


def test_page_without_script_shows_escaped_turns(server, browser, client, user):
    client.chat.completions.create(
        model="assistant",
        messages=[{"role": "user", "content": "Is <b>this</b> bold?"}],
        safety_identifier=user,
    )
    page = browser.get("/admin/live").text
    assert "Is &lt;b&gt;this&lt;/b&gt; bold?" in page
    assert 'src="/admin/static/studio/live.js"' in page
    assert "No running turns." in page


def test_polling_client_sees_running_turns(server, http, client, fake, user):
    fake.hang()
    call = run_in_thread(ask, client, user)
    fake.wait(lambda: fake.requests)

    def agents():
        data = http.get("/admin/live", headers=JSON).json()
        return [turn["agent"] for turn in data["turns"]]

    wait_for(lambda: agents() == ["assistant"])
    face.LiveState.model_validate(http.get("/admin/live", headers=JSON).json())
    # From now on others are listened to, for a while.
    wait_for(lambda: broadcaster.current()._processes)
    wait_for(lambda: agents() == ["assistant"])
    assert broadcaster.current()._processes
    fake.release()
    call.join(60)


@pytest.fixture
def tasks_of_user(user):
    """A waiting and an ended task, so that the queue is never empty."""
    century = timedelta(days=36_500)
    now = datetime.now(UTC)
    user_id = derive_user_id(user)
    for state, ended_at in (("queued", None), ("done", now + century)):
        Task.objects.create(
            kind="agent",
            user_id=user_id,
            agent="assistant",
            state=state,
            due_at=now + century,
            created_at=now,
            finished_at=ended_at,
        )
    yield
    Task.objects.filter(user_id=user_id).delete()


def test_latest_turns_take_a_fixed_number_of_queries(
    server, tasks_of_user, client, user
):
    def count():
        with CaptureQueriesContext(connection) as queries:
            latest = recent_activity.load_latest()
        assert latest["tasks"]["open"]
        assert latest["tasks"]["ended"]
        return len(queries)

    ask(client, user)
    before = count()
    ask(client, user)
    assert before == count() <= 12
