"""The request log: one line for each HTTP request, whatever becomes of it."""

import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from access.users import identity
from config.editing import file_editor
from config.loading import loader
from gateway.asgi import slow_clients
from telemetry.request_log import writer
from telemetry.request_log.writer import RequestLogWriter
from tests.conftest import CONFIG
from tests.gateway.calls import bearer, body, open_connection, post, until

pytestmark = pytest.mark.database

Lines = Callable[[int], list[dict[str, Any]]]
ON = """
telemetry:
  request_log: {{enabled: true, path: {path}}}
"""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(writer, "BATCH_SECONDS", 0.0)


@pytest.fixture
def log_path(tmp_path) -> Path:
    return tmp_path / "requests.log"


@pytest.fixture
def lines(server, configure, log_path) -> Iterator[Lines]:
    """Turn the log on; return a function that waits for this number of lines."""
    configure(CONFIG + ON.format(path=log_path))

    def lines(count: int) -> list[dict[str, Any]]:
        until(lambda: log_path.exists() and log_path.read_text().count("\n") >= count)
        found = [json.loads(line) for line in log_path.read_text().splitlines()]
        assert len(found) == count
        return found

    yield lines
    configure(CONFIG)


def digest(user: str) -> str:
    user_id = str(identity.derive_user_id(user))
    return hashlib.sha256(user_id.encode()).hexdigest()[:16]


@pytest.mark.parametrize("stream", [False, True])
def test_turn_has_one_line_with_its_facts(server, fake, user, lines, stream):
    fake.reply("Hello", " there")
    request = body(user, "a private question", stream=stream)
    response = post(server, request, headers={"X-Request-Id": "checkout-7"})
    [line] = lines(1)
    size = len(response.request.content)
    assert line.pop("duration_ms") >= line.pop("first_byte_ms") > 0
    assert line.pop("time").endswith("Z")
    assert line.pop("turn_id")
    assert line.pop("input_tokens") > 0
    assert line.pop("output_tokens") > 0
    assert line == {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "request_id": "checkout-7",
        "client": "127.0.0.1",
        "method": "POST",
        "route": "/v1/chat/completions",
        "status": 200,
        "bytes_in": size,
        "bytes_out": len(response.content),
        "user": digest(user),
        "agent": "assistant",
        "model": "openai/gpt-test",
    }


def test_line_has_no_content_query_or_parameter(http, user, lines, log_path):
    path = f"/v1/threads/thread-secret?safety_identifier={user}"
    http.get(path, headers=bearer("sk-coulisse-" + "k" * 43))
    http.get("/v1/private-path")
    first, second = lines(2)
    assert (first["route"], first["status"]) == ("/v1/threads/{thread_id}", 404)
    assert first["user"] == digest(user)
    assert (second["route"], second["status"]) == ("/v1/{path}", 404)
    assert second["error_code"] == "not_found"
    for secret in ("thread-secret", user, "k" * 43, "private-path"):
        assert secret not in log_path.read_text()


def test_secret_as_request_id_is_redacted(http, lines, log_path):
    http.get("/health/live", headers={"X-Request-Id": "sk-coulisse-" + "k" * 43})
    [line] = lines(1)
    assert line["request_id"] == "[redacted]"


@pytest.mark.parametrize(
    ("path", "headers", "content", "status", "code"),
    [
        ("/v1/chat/completions", {}, b"{", 400, "invalid_json"),
        ("/v1/chat/completions", {}, b" " * 3_000_000, 413, "body_too_large"),
        ("/v1/models", {"Host": "evil.example.com"}, b"", 400, "host_not_allowed"),
        ("/v1/messages", {}, b"{", 400, "invalid_json"),
    ],
)
def test_refused_request_has_its_code(
    http, lines, path, headers, content, status, code
):
    headers = {"Content-Type": "application/json", **headers}
    method = "POST" if content else "GET"
    http.request(method, path, headers=headers, content=content)
    [line] = lines(1)
    assert (line["route"], line["status"]) == (path, status)
    assert line["error_code"] == code


def test_provider_error_in_a_stream_has_its_code(server, fake, user, lines):
    for _ in range(10):  # The reply is continued a few times.
        fake.cut("mid_stream", "first")
    post(server, body(user, stream=True))
    [line] = lines(1)
    assert (line["status"], line["error_code"]) == (200, "provider_disconnected")
    assert line["agent"] == "assistant"


def test_client_that_leaves_is_logged_as_cut(server, fake, user, lines):
    fake.hang("mid_stream", "first", "second")
    with open_connection(server, body(user, stream=True)) as caller:
        caller.read_until("first")
    [line] = lines(1)
    assert (line["status"], line["cut"]) == (200, "client")
    assert line["bytes_out"] > 0
    assert line["turn_id"]


def test_client_that_leaves_before_the_answer_has_no_status(server, fake, user, lines):
    fake.hang("headers")
    with open_connection(server, body(user)):
        fake.wait(lambda: fake.requests)
    [line] = lines(1)
    assert line["cut"] == "client"
    assert "status" not in line
    assert "first_byte_ms" not in line


def test_slow_client_is_logged_as_cut(server, fake, user, lines, monkeypatch):
    monkeypatch.setattr(slow_clients, "SEND_TIMEOUT_SECONDS", 0.2)
    fake.reply(*["x" * 100_000] * 200)
    with open_connection(server, body(user, stream=True)):
        [line] = lines(1)
    assert line["cut"] == "slow_client"


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        (b"GET / HTTP/1.1\nHost: a\n\n", 400, "malformed_request"),
        (b"GET /private HTTP/1.1\r\n\r\n", 400, "host_missing"),
    ],
)
def test_request_refused_by_the_server_has_a_line(server, lines, head, status, code):
    address = urlsplit(server)
    with socket.create_connection((address.hostname, address.port), 10) as client:
        client.sendall(head)
        assert client.recv(65536)
    [line] = lines(1)
    assert line.pop("time").endswith("Z")
    assert line == {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "client": "127.0.0.1",
        "status": status,
        "error_code": code,
    }


def test_chunks_with_too_much_framing_have_one_line(server, lines):
    address = urlsplit(server)
    with socket.create_connection((address.hostname, address.port), 10) as client:
        client.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: test\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        chunk = b"1;" + b"x" * 60_000 + b"\r\n \r\n"
        with suppress(OSError):
            for _ in range(1000):
                client.sendall(chunk)
    [line] = lines(1)
    assert (line["status"], line["error_code"]) == (413, "body_too_large")
    assert line["route"] == "/v1/chat/completions"
    assert "cut" not in line


def test_incognito_turn_names_neither_user_nor_agent(server, fake, user, lines):
    fake.reply("ok")
    post(server, body(user, metadata={"memory": "incognito"}))
    [line] = lines(1)
    assert line["status"] == 200
    assert not {"user", "agent", "model", "turn_id", "input_tokens"} & line.keys()


def test_studio_request_has_its_route(http, lines):
    http.get("/admin/turns?user=private")
    [line] = lines(1)
    assert line["route"] == "/admin/turns"


def test_log_that_is_off_writes_nothing(server, fake, user, log_path):
    fake.reply("ok")
    post(server, body(user))
    assert not log_path.exists()


def test_unwritable_log_disturbs_no_request(server, configure, fake, user, caplog):
    configure(CONFIG + ON.format(path="/nowhere/requests.log"))
    for _ in range(2):
        fake.reply("ok")
        assert post(server, body(user)).status_code == 200
    until(lambda: "cannot write" in caplog.text)
    assert "telemetry.request_log.path" in caplog.text
    configure(CONFIG)


def test_lines_beyond_the_buffer_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "BATCH_SECONDS", 0.3)
    monkeypatch.setattr(writer, "MAX_WAITING", 2)
    path = tmp_path / "requests.log"
    config = writer.RequestLogConfig(enabled=True, path=str(path))
    log = RequestLogWriter()
    for number in range(5):
        log.add({"number": number}, config)
    until(path.exists)
    until(lambda: path.read_text().count("\n") == 3)
    assert json.loads(path.read_text().splitlines()[-1])["dropped"] == 3


def test_log_on_stderr_is_json_lines(capsys, monkeypatch):
    log = RequestLogWriter()
    log.add({"status": 200}, writer.RequestLogConfig(enabled=True, path="stderr"))
    log._executor.shutdown(wait=True)
    assert json.loads(capsys.readouterr().err)["status"] == 200


def test_studio_may_not_change_the_path(tmp_path):
    before = loader.load_file(_file(tmp_path, CONFIG))
    after = loader.load_file(_file(tmp_path, CONFIG + ON.format(path="/root/.profile")))
    with pytest.raises(file_editor.FileOnlySetting, match=r"request_log\.path"):
        file_editor.check_file_only(before, after)


def _file(folder: Path, text: str) -> Path:
    path = folder / "edited.yaml"
    path.write_text(text.replace("{fake}", "http://127.0.0.1:1"))
    return path


def test_concurrent_requests_have_a_line_each(http, lines):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: http.get("/v1/models"), range(40)))
    assert len({line["request_id"] for line in lines(40)}) == 40
