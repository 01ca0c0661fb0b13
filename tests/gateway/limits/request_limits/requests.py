"""Requests outside of turns, and their counters."""

import contextlib
import json
import socket
from urllib.parse import urlsplit

import httpx2

from access.limits import time_windows, usage_limits
from access.models import ApiToken as TokenRow
from access.models import UsageCounter
from access.users import identity
from access.users.request_user import USER_HEADER

OFFLINE = "memory: {user_state: {embed_with: {provider: hash}}}\n"


EMBEDDED = (
    "memory: {user_state: {embed_with: {provider: openai, "
    'base_url: "{fake}/v1", api_key: sk-fake, model: text-embedding-3-small}}}\n'
)


# A dollar for each token.
PRICED = "prices: {openai: {text-embedding-3-small: {input: 1000000, output: 0}}}\n"


TOKENS = "auth: {proxy: {tokens: {}}}\n"


SHOWN = "telemetry: {sqlite: {show_to_users: true}}\n"


DOLLAR = 1_000_000


QUERY = "what she likes to drink with her breakfast"


SEARCH = "/v1/memories/search"


ESTIMATE = -(-len(QUERY) // 4)


"""Tokens reserved for a search with it. The fake counts a token per letter."""


def send(url: str, method: str, path: str, user: str = "", **more) -> httpx2.Response:
    headers = {**more.pop("headers", {}), **({USER_HEADER: user} if user else {})}
    return httpx2.request(
        method, url + path, headers=headers, timeout=60, verify=False, **more
    )


def search(url: str, user: str = "", **more) -> httpx2.Response:
    request = {"query": QUERY}
    return send(url, "POST", "/v1/memories/search", user, json=request, **more)


@contextlib.contextmanager
def leaving(url: str, headers: dict[str, str], path: str = SEARCH, body=None):
    """Start a search, and cancel it at the end of the block."""
    address = urlsplit(url)
    content = json.dumps(body or {"query": QUERY}).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: test",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    with socket.create_connection((address.hostname, address.port), 60) as sending:
        sending.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        yield


def user_meter(user: str, length: int) -> UsageCounter | None:
    subject = usage_limits.user_subject(identity.derive_user_id(user))
    return UsageCounter.objects.filter(subject=subject, window=length).first()


def token_meter(user: str) -> UsageCounter:
    """Return the total usage of a user's only token."""
    (row,) = TokenRow.objects.filter(principal=user)
    subject = usage_limits.token_subject(row)
    return UsageCounter.objects.get(subject=subject, window=time_windows.EVER)


def is_clear(counter: UsageCounter | None) -> bool:
    """Return whether there are no reservations."""
    if counter is None:
        return True
    names = ("turns", "tokens", "micro_usd")
    ages = ("reserved_now", "reserved_before")
    return not any(getattr(counter, f"{name}_{age}") for name in names for age in ages)
