"""The endpoints of the server that a terminal chat uses, within limits on size."""

from collections.abc import Generator, Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import orjson
from pydantic import BaseModel, ValidationError

from core.errors import CoulisseError, Invalid, Unavailable
from core.text.sanitization import escape_and_truncate
from providers.transport.sse import SseParser

TIMEOUTS = httpx2.Timeout(10.0, read=600.0)
"""The server itself limits how long a model may take."""
MAX_RESPONSE_BYTES = 64 * 1024 * 1024
MAX_ERROR_LENGTH = 2000
USER_HEADER = b"X-Coulisse-User"


class ChatRefused(CoulisseError):
    """The server refused a request, or its reply ended with an error."""


class ServerUnreachable(Unavailable):
    """The server does not answer."""


class ApiError(BaseModel):
    message: str


class Item(BaseModel):
    """An agent, a thread or a memory of a list."""

    id: str
    title: str | None = None
    content: str = ""
    category: str = ""
    held_for: str | None = None
    """Why a memory is pending review."""


class Call(BaseModel):
    """A call of a turn; those of models have no name."""

    name: str = ""
    arguments: str = ""
    result: str | None = None


class Delta(BaseModel):
    content: str | None = None
    refusal: str | None = None


class Choice(BaseModel):
    delta: Delta = Delta()
    finish_reason: str | None = None


class Response(BaseModel):
    """What a chat reads of any response, and of any piece of a streamed one."""

    id: str = ""
    error: ApiError | None = None
    data: list[Item] = []
    calls: list[Call] = []
    choices: list[Choice] = []
    accepted: list[str] = []
    rejected: list[str] = []
    pending_review: int = 0


class ChatApi:
    """A client of one server."""

    def __init__(self, url: str, *, token: str | None) -> None:
        """Raises `Invalid` for an address that no server can have."""
        self._url = _parse_url(url)
        self.is_authenticated = bool(token) or bool(self._url.userinfo)
        headers = {b"Accept-Encoding": b"identity"}
        if token:
            headers[b"Authorization"] = f"Bearer {token}".encode()
        self._client = httpx2.Client(headers=headers, timeout=TIMEOUTS)

    def close(self) -> None:
        self._client.close()

    def request(
        self,
        method: str,
        *path: str,
        user: str | None,
        body: Any = None,
        **params: str | int,
    ) -> Response:
        """Return the response to a request below `/v1`.

        Raises `ChatRefused`, `ServerUnreachable`.
        """
        content = None if body is None else orjson.dumps(body)
        pieces = self._send(method, path, user, params=params, content=content)
        return _parse(b"".join(pieces))

    def stream_reply(self, body: Any, *, user: str | None) -> Generator[Response]:
        """Yield the pieces of a reply; closing the iterator cancels the reply.

        Raises `ChatRefused`, also if the reply ends early, and `ServerUnreachable`.
        """
        parser = SseParser()
        path, content = ("chat", "completions"), orjson.dumps(body)
        for piece in self._send("POST", path, user, content=content):
            for _, data in parser.feed(piece):
                if data == b"[DONE]":
                    return
                chunk = _parse(data)
                if chunk.error is not None:
                    raise ChatRefused(_escape(chunk.error.message))
                yield chunk
        raise ChatRefused("the connection ended before the reply did")

    def _send(
        self,
        method: str,
        path: tuple[str, ...],
        user: str | None,
        *,
        content: bytes | None,
        params: dict[str, str | int] | None = None,
    ) -> Iterator[bytes]:
        """Yield the pieces of a successful response."""
        url = self._url.join("/v1/" + "/".join(map(_quote, path)))
        headers = {} if content is None else {b"Content-Type": b"application/json"}
        if user is not None:
            headers[USER_HEADER] = user.encode()
        try:
            with self._client.stream(
                method,
                url,
                params=params,
                headers=headers,
                content=content,
            ) as response:
                pieces = _limit(response.iter_raw())
                if not response.is_success:
                    raise ChatRefused(_read_error(response.status_code, pieces))
                yield from pieces
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            address = self._url.copy_with(username=None, password=None)
            raise ServerUnreachable(
                f"cannot reach {address} ({exc or type(exc).__name__}): start the "
                "server with `coulisse start`, or pass its address with --url"
            ) from exc


def _quote(part: str) -> str:
    """Return a part of a path; `.` and `..` would be steps within it."""
    encoded = quote(part, safe="")
    return encoded if encoded.strip(".") else encoded.replace(".", "%2E")


def _parse_url(text: str) -> httpx2.URL:
    try:
        url = httpx2.URL(text.rstrip("/").removesuffix("/v1"))
    except httpx2.InvalidURL as exc:
        raise Invalid(f"--url is not an address: {exc}") from exc
    if url.scheme not in ("http", "https") or not url.host:
        raise Invalid("--url must be an address such as http://localhost:8421")
    return url


def _limit(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces of a response; raises `ChatRefused` if it is too long."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_RESPONSE_BYTES:
            raise ChatRefused(f"the response has more than {MAX_RESPONSE_BYTES} bytes")
        yield piece


def _read_error(status: int, pieces: Iterator[bytes]) -> str:
    """Return the message of a refused request."""
    error = _parse(b"".join(pieces)).error
    message = "" if error is None else f"{_escape(error.message)} "
    hint = ": pass a token with --token or $COULISSE_TOKEN" if status == 401 else ""
    return f"{message}(status {status}){hint}"


def _escape(message: str) -> str:
    return escape_and_truncate(message, MAX_ERROR_LENGTH)


def _parse(data: bytes) -> Response:
    try:
        return Response.model_validate_json(data)
    except ValidationError as exc:
        raise ChatRefused("this is not the answer of a Coulisse server") from exc
