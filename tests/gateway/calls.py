"""Requests of the tests to the server, and queries of its tables.

Each response is checked against OpenAI's published schemas.
"""

import base64
import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
from openai.types.chat import ChatCompletion

from access.users import identity
from memory.models import StoredMessage, Thread
from tests.gateway.openai_shapes import check

PATH = "/v1/chat/completions"
WAIT_SECONDS = 60.0
"""The time limit for results that usually arrive at once."""
DONE = "[DONE]"


def user_message(text: str) -> dict[str, Any]:
    """Return a user's message."""
    return {"role": "user", "content": text}


def body(user: str, *texts: str, agent: str = "assistant", **more: Any) -> dict:
    """Return a request body with these user messages, or with `messages=`."""
    messages = [user_message(text) for text in texts or ["hi"]]
    return {
        "model": agent,
        "messages": messages,
        "safety_identifier": user,
        **more,
    }


def bearer(secret: str) -> dict[str, str]:
    """Return the header with a bearer token."""
    return {"Authorization": f"Bearer {secret}"}


def basic(username: str, password: str, encoding: str = "utf-8") -> dict[str, str]:
    """Return the header of HTTP Basic."""
    pair = f"{username}:{password}".encode(encoding)
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def ask(client: openai.OpenAI, user: str, *texts: str, **more: Any) -> ChatCompletion:
    """Request a complete reply with the official client."""
    request = body(user, *texts, **more)
    raw = client.chat.completions.with_raw_response.create(**request)
    check("completion", json.loads(raw.content))
    return raw.parse()


def post(server: str, content: Any, **more: Any) -> httpx2.Response:
    """Post a body: bytes unchanged, anything else as JSON."""
    if isinstance(content, bytes):
        more.setdefault("headers", {"Content-Type": "application/json"})
        more["content"] = content
    else:
        more["json"] = content
    # Loading certificates, which are not needed, costs more than the request.
    return httpx2.post(server + PATH, timeout=WAIT_SECONDS, verify=False, **more)


def error(response: httpx2.Response, status: int) -> dict[str, Any]:
    """Return the error object of a response, which must have this status."""
    assert response.status_code == status, (response.status_code, response.text)
    assert response.headers["content-type"] == "application/json"
    return check("error", response.json())["error"]


def refused(server: str, request: Any, status: int = 400, **more: Any) -> dict:
    """Post a body that the server refuses; return the error."""
    return error(post(server, request, **more), status)


def frames(server: str, request: dict[str, Any]) -> list[Any]:
    """Stream a reply; return the parsed data of each frame, and `[DONE]`."""
    response = post(server, {**request, "stream": True})
    assert response.status_code == 200, response.text
    return read_frames(response.content)


def read_frames(content: bytes) -> list[Any]:
    """Return the data of each frame of a complete stream, without heartbeats."""
    *blocks, rest = content.decode().split("\n\n")
    assert rest == "", f"the stream ends within a frame: {rest!r}"
    return [_frame(block) for block in blocks if block != ": heartbeat"]


def _frame(block: str) -> Any:
    *event, line = block.split("\n")
    assert event in ([], ["event: handoff_started"]), block
    assert line.startswith("data: "), block
    if (text := line.removeprefix("data: ")) == DONE:
        return DONE
    data = json.loads(text)
    standard = {name: data[name] for name in data if not event or name != "agent"}
    check("error" if "error" in data else "chunk", standard)
    return data


def choices(read: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the choice of each chunk that has one."""
    chunks = [data for data in read if data != DONE and "choices" in data]
    return [chunk["choices"][0] for chunk in chunks if chunk["choices"]]


def text_of(read: Sequence[Any]) -> str:
    """Return the text of a stream."""
    return "".join(choice["delta"].get("content") or "" for choice in choices(read))


class RawClient:
    """A client on a bare socket, which can disconnect at any time."""

    def __init__(self, server: str, request: dict[str, Any]) -> None:
        address = urlsplit(server)
        assert address.hostname
        assert address.port
        self._socket = socket.create_connection(
            (address.hostname, address.port), WAIT_SECONDS
        )
        content = json.dumps(request).encode()
        self._socket.sendall(
            b"POST %s HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (PATH.encode(), len(content), content)
        )
        self.received = b""

    def read_until(self, text: str) -> None:
        """Read until the server has sent this text."""
        while text.encode() not in self.received:
            chunk = self._socket.recv(65536)
            assert chunk, f"the server disconnected after {self.received!r}"
            self.received += chunk

    def is_reset(self) -> bool:
        """Return whether the server has closed the connection, without reading."""
        try:
            self._socket.send(b"\r\n")
        except OSError:
            return True
        return False

    def close(self) -> None:
        """Disconnect."""
        self._socket.close()


@contextlib.contextmanager
def open_connection(server: str, request: dict[str, Any]) -> Iterator[RawClient]:
    """Send a request, and disconnect at the end."""
    caller = RawClient(server, request)
    try:
        yield caller
    finally:
        caller.close()


def stored(user: str, thread: str = "") -> list[tuple[str, str, str]]:
    """Return a thread's messages: role, text, finish reason."""
    rows = StoredMessage.objects.filter(
        thread__user_id=identity.derive_user_id(user), thread__name=thread
    ).order_by("position")
    return list(rows.values_list("role", "text", "finish_reason"))


def threads(user: str) -> list[str]:
    """Return the names of a user's threads."""
    rows = Thread.objects.filter(user_id=identity.derive_user_id(user)).order_by("name")
    return list(rows.values_list("name", flat=True))


def until(condition: Callable[[], Any]) -> Any:
    """Wait until a condition returns a true value, such as a row; return the value."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (result := condition()):
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.005)
    return result


def prompt(request: Any) -> list[tuple[str, str]]:
    """Return the messages that a provider received, on either wire: role and text."""
    sent = request.body
    system = [("system", sent["system"])] if sent.get("system") else []
    return system + [(m["role"], plain(m["content"])) for m in sent["messages"]]


def plain(content: Any) -> str:
    """Return the text of a message's content, on either wire."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""
