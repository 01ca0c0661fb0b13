"""How the tests call the server, and what they read in its tables.

Every answer is held against OpenAI's published shapes on its way to the test.
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
"""For what comes, if nothing is wrong, at once."""
DONE = "[DONE]"


def says(text: str) -> dict[str, Any]:
    """Return a user's message."""
    return {"role": "user", "content": text}


def body(user: str, *texts: str, agent: str = "assistant", **more: Any) -> dict:
    """Return a request's body: what the user says, or `messages=`."""
    messages = [says(text) for text in texts or ["hi"]]
    return {
        "model": agent,
        "messages": messages,
        "safety_identifier": user,
        **more,
    }


def bearer(secret: str) -> dict[str, str]:
    """Return the header that carries a bearer token."""
    return {"Authorization": f"Bearer {secret}"}


def basic(username: str, password: str, encoding: str = "utf-8") -> dict[str, str]:
    """Return the header of HTTP Basic."""
    pair = f"{username}:{password}".encode(encoding)
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def ask(client: openai.OpenAI, user: str, *texts: str, **more: Any) -> ChatCompletion:
    """Ask for a whole reply with the official client."""
    request = body(user, *texts, **more)
    raw = client.chat.completions.with_raw_response.create(**request)
    check("completion", json.loads(raw.content))
    return raw.parse()


def post(server: str, content: Any, **more: Any) -> httpx2.Response:
    """Post a body: bytes as they are, anything else as JSON."""
    if isinstance(content, bytes):
        more.setdefault("headers", {"Content-Type": "application/json"})
        more["content"] = content
    else:
        more["json"] = content
    # Reading the certificates nobody needs here costs more than the request.
    return httpx2.post(server + PATH, timeout=WAIT_SECONDS, verify=False, **more)


def error(response: httpx2.Response, status: int) -> dict[str, Any]:
    """Return the error object of an answer that has this status."""
    assert response.status_code == status, (response.status_code, response.text)
    assert response.headers["content-type"] == "application/json"
    return check("error", response.json())["error"]


def refused(server: str, request: Any, status: int = 400, **more: Any) -> dict:
    """Post a body that is answered with an error; return the error."""
    return error(post(server, request, **more), status)


def frames(server: str, request: dict[str, Any]) -> list[Any]:
    """Stream a reply; return each frame's data, JSON read, and `[DONE]`."""
    response = post(server, {**request, "stream": True})
    assert response.status_code == 200, response.text
    return read_frames(response.content)


def read_frames(content: bytes) -> list[Any]:
    """Return the data of each frame of a whole stream, without heartbeats."""
    *blocks, rest = content.decode().split("\n\n")
    assert rest == "", f"the stream ends within a frame: {rest!r}"
    return [_frame(block) for block in blocks if block != ": heartbeat"]


def _frame(block: str) -> Any:
    *before, line = block.split("\n")
    assert before in ([], ["event: handoff_started"]), block
    assert line.startswith("data: "), block
    if (text := line.removeprefix("data: ")) == DONE:
        return DONE
    data = json.loads(text)
    known = {name: data[name] for name in data if not before or name != "agent"}
    check("error" if "error" in data else "chunk", known)
    return data


def choices(read: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the one choice of each chunk that has one."""
    chunks = [data for data in read if data != DONE and "choices" in data]
    return [chunk["choices"][0] for chunk in chunks if chunk["choices"]]


def text_of(read: Sequence[Any]) -> str:
    """Return the text a stream says."""
    return "".join(choice["delta"].get("content") or "" for choice in choices(read))


class Caller:
    """A client that can leave whenever it wants: a bare socket."""

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
        self.heard = b""

    def hear(self, text: str) -> None:
        """Wait until the server has said this."""
        while text.encode() not in self.heard:
            piece = self._socket.recv(65536)
            assert piece, f"the server hung up after {self.heard!r}"
            self.heard += piece

    def is_reset(self) -> bool:
        """Return whether the server has ended the connection; reads nothing."""
        try:
            self._socket.send(b"\r\n")
        except OSError:
            return True
        return False

    def leave(self) -> None:
        """Hang up."""
        self._socket.close()


@contextlib.contextmanager
def calling(server: str, request: dict[str, Any]) -> Iterator[Caller]:
    """Call the server, and hang up at the end."""
    caller = Caller(server, request)
    try:
        yield caller
    finally:
        caller.leave()


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
    """Wait until something is true that nobody announces, such as a row; return it."""
    end = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.005)
    return found


def prompt(request: Any) -> list[tuple[str, str]]:
    """Return what a provider was told, on either wire: role and text."""
    sent = request.body
    said = [("system", sent["system"])] if sent.get("system") else []
    return said + [(m["role"], plain(m["content"])) for m in sent["messages"]]


def plain(content: Any) -> str:
    """Return the text of a message's content, on either wire."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""
