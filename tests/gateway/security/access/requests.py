"""Requests with credentials of one user or another."""

import httpx2

from tests.conftest import CONFIG

TOKENS = (
    CONFIG
    + """
auth:
  mcp_consumer_secret: consumer-secret
  admin: {basic: {password: open-the-studio}}
  proxy: {tokens: {}}
memory:
  user_state: {embed_with: {provider: hash}, learn_from: {provider: openai, model: m}}
telemetry: {sqlite: {show_to_users: true}}
"""
)


NASTY = [
    "' OR '1'='1",
    "'; DROP TABLE memory_thread; --",
    '" OR ""="',
    "1) UNION SELECT digest FROM access_token --",
    "%' OR '%'='",
    "\\'; SELECT pg_sleep(5); --",
    "ada\r\nSet-Cookie: owned=1",
    "ada\r\n\r\nHTTP/1.1 200 OK",
    "ada\x01eve",
    "../../etc/passwd",
    "${OPENAI_API_KEY}",
    "{{7*7}}",
    "<script>alert(1)</script>",
]


def chat_body(**more) -> dict:
    messages = [{"role": "user", "content": "hi"}]
    return {"model": "assistant", "messages": messages, **more}


def code(answer: httpx2.Response) -> tuple[int, str | None]:
    return answer.status_code, answer.json()["error"]["code"]
