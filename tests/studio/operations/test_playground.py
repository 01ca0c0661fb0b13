"""The playground: turns as any user, and their traces."""

import json
from contextlib import ExitStack

import httpx2
import pytest

from core import ids
from telemetry.storage import turn_store
from tests.conftest import serve

pytestmark = pytest.mark.database

MESSAGE = {"agent": "assistant", "user": "test-user", "message": "Hello?"}
PATH = "/admin/playground/turns"


def frames(text: str) -> list:
    lines = [line for line in text.split("\n") if line.startswith("data: ")]
    assert lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_playground_offers_agents_and_a_default_user(script):
    data = script.get("/admin/playground").json()
    assert data["agents"][0] == "assistant"
    assert data["user"] == "playground-local"
    page = script.get(
        "/admin/playground?agent=claude&user=ada", headers={"Accept": "text/html"}
    )
    assert "<option selected>claude</option>" in page.text
    assert 'value="ada"' in page.text


def test_turn_is_streamed_as_the_user_and_recorded(script, fake):
    fake.reply("Hello, ", "Ada.")
    response = script.post(PATH, json=MESSAGE)
    assert response.headers["Content-Type"] == "text/event-stream"
    data = frames(response.text)
    words = [c["choices"][0]["delta"].get("content") for c in data if c["choices"]]
    assert "".join(filter(None, words)) == "Hello, Ada."
    assert data[-1]["usage"]["completion_tokens"] > 0
    turn = turn_store.load_record(ids.parse_turn_id(data[0]["id"]))
    assert turn.user_message == "Hello?"
    assert turn.outcome == "ok"


def test_provider_error_is_an_error_frame(script, fake):
    fake.fail(500)
    response = script.post(PATH, json=MESSAGE)
    (data,) = frames(response.text)
    assert data["error"]["type"] == "upstream_error"
    turn = script.get(f"/admin/turns/{response.headers['X-Coulisse-Turn']}").json()
    assert turn["outcome"] == "error"


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"agent": "nobody"}, 404, "nobody"),
        ({"user": ""}, 400, "user"),
        ({"message": ""}, 400, "message"),
        ({"message": 3}, 400, "message"),
        ({"temperature": 1}, 400, "temperature"),
    ],
)
def test_invalid_request_is_refused_before_the_turn(
    script, fake, change, status, message
):
    response = script.post(PATH, json={**MESSAGE, **change})
    assert response.status_code == status
    assert message in response.json()["error"]["message"]
    assert fake.is_idle


def test_incognito_turn_is_not_stored(script, fake):
    fake.reply("Who?")
    data = frames(script.post(PATH, json={**MESSAGE, "incognito": True}).text)
    assert turn_store.load_record(ids.parse_turn_id(data[0]["id"])) is None


def test_viewer_cannot_chat(viewer, fake):
    assert viewer.post(PATH, json=MESSAGE).status_code == 403
    assert fake.is_idle


def test_client_disconnect_stops_the_turn(script, fake):
    fake.hang("mid_stream", "One ", "two")
    with script.stream("POST", PATH, json=MESSAGE) as streamed:
        assert next(streamed.iter_bytes())
    fake.wait(lambda: fake.requests[-1].aborted)


def test_server_shutdown_is_reported_in_the_stream(server, fake):
    fake.hang("mid_stream", "One ", "two")
    heard = b""
    with ExitStack() as stack:
        with serve("coulisse_site.asgi:application", grace_seconds=0) as url:
            http = stack.enter_context(httpx2.Client(verify=False, timeout=60))
            asking = http.stream("POST", f"{url}{PATH}", json=MESSAGE)
            coming = stack.enter_context(asking).iter_bytes()
            while b"One" not in heard:
                heard += next(coming)
        heard += b"".join(coming)
    assert frames(heard.decode())[-1]["error"]["code"] == "server_stopping"
    fake.wait(lambda: fake.requests[-1].aborted)
