"""`Retry-After`: every 503 has it, and every 429 that a wait ends."""

import ast
import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.http import HttpRequest

import files
import smoke
from core.errors import CoulisseError, Limited
from gateway import errors
from gateway.asgi.handler import ResponseSender
from processes.http_server.refusals import Refusal, build_response
from studio.server import middleware

RETRIED = (429, 503)
SILENT = "An error of the test."


def subclasses(family: type[CoulisseError]) -> Iterator[type[CoulisseError]]:
    yield family
    for each in family.__subclasses__():
        yield from subclasses(each)


def retried_errors() -> list[CoulisseError]:
    """Return an error of each class that becomes a 429 or 503."""
    for app in (files, smoke):  # The only ones that nothing above loads.
        for module in pkgutil.walk_packages(app.__path__, f"{app.__name__}."):
            if module.name.endswith(".errors"):
                importlib.import_module(module.name)
    created = []
    for family in set(subclasses(CoulisseError)):
        # Without its arguments, so that only what the class sets is known.
        error = family.__new__(family)
        CoulisseError.__init__(error, SILENT)
        # Its classes always know a time, or that none helps: a spent total budget.
        is_known = isinstance(error, Limited)
        if not is_known and errors.error_shape(error).status in RETRIED:
            created.append(error)
    return created


async def sent_headers(response) -> dict[bytes, bytes]:
    messages = []

    async def send(message) -> None:
        messages.append(message)

    sender = ResponseSender(send, "req_1", [])
    raw = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    await sender.send(
        {
            "type": "http.response.start",
            "status": response.status_code,
            "headers": raw,
        }
    )
    return dict(messages[0]["headers"])


async def test_every_error_that_may_be_retried_says_when() -> None:
    found = retried_errors()
    assert len(found) > 20
    for error in found:
        headers = await sent_headers(errors.error_response(error))
        assert int(headers[b"retry-after"]) >= 1, error


@pytest.mark.parametrize(
    ("accept", "seconds"), [("application/json", b"41"), ("text/html", b"2")]
)
async def test_error_of_the_studio_says_when(accept, seconds) -> None:
    request = HttpRequest()
    request.META["HTTP_ACCEPT"] = accept
    stopping = errors.ServerStopping()
    stopping.retry_after_seconds = 41
    headers = await sent_headers(middleware.error_response(request, stopping))
    assert headers[b"retry-after"] == seconds


async def test_time_of_an_error_is_not_replaced() -> None:
    stopping = errors.ServerStopping()
    stopping.retry_after_seconds = 41
    headers = await sent_headers(errors.error_response(stopping))
    assert headers[b"retry-after"] == b"41"
    missing = await sent_headers(errors.error_response(errors.HostRefused()))
    assert b"retry-after" not in missing


def test_refusals_before_the_application_say_when() -> None:
    """Those of the protocol, which no response of the application passes."""
    found = 0
    for path in (settings.BASE_DIR / "processes/http_server").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "Refusal"
                and ast.literal_eval(node.args[0]) in RETRIED
            ):
                found += 1
                assert ast.literal_eval(node.args[3]) >= 1, ast.unparse(node)
    assert found
    refusal = Refusal(503, "too_many_connections", SILENT, 2)
    assert b"\r\nretry-after: 2\r\n" in build_response(refusal, [])
