"""A pytest plugin: replaces the values of a mock in openai-python's own tests.

Their placeholders become ids of new objects, and numbers of zero, which OpenAI's API
refuses, become one.
"""

from typing import Any

import httpx2
import openai
from openai._base_client import BaseClient
from openai._models import FinalRequestOptions

RESPONSES = ("resp_677efb5139a88190b512bc3fef8e535d", "response_id")
COUNTS = (
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "max_tool_calls",
    "n",
)
HELLO = {"role": "user", "content": "hi"}
CHAT = {"model": "model", "messages": [HELLO], "store": True}
RESPONSE = {"model": "model", "input": "hi"}

build_request = BaseClient._build_request


def _post(url: str, body: dict[str, Any], **more: Any) -> str:
    # Not the client of the test, whose requests are changed here.
    answer = httpx2.post(url, **({"json": body} | more), timeout=60)
    return str(answer.raise_for_status().json()["id"])


def _file(base: str) -> str:
    files = {"file": ("a.txt", b"Example data")}
    return _post(
        f"{base}files", {}, json=None, files=files, data={"purpose": "user_data"}
    )


def _address(base: str, url: str) -> str:
    """Return an address whose objects exist."""
    if "completion_id" in url:
        url = url.replace("completion_id", _post(f"{base}chat/completions", CHAT))
    if "conv_123" in url:
        name = _post(f"{base}conversations", {"items": [HELLO | {"type": "message"}]})
        items = httpx2.get(f"{base}conversations/{name}/items", timeout=60).json()
        url = url.replace("conv_123", name)
        url = url.replace("msg_abc", items["data"][0]["id"])
    for placeholder in RESPONSES:
        if placeholder in url:
            body = {**RESPONSE, "background": url.endswith("cancel")}
            url = url.replace(placeholder, _post(f"{base}responses", body))
    return url.replace("file_id", _file(base)) if "file_id" in url else url


def _build(client: Any, options: FinalRequestOptions, **more: Any) -> Any:
    options.url = _address(str(client.base_url), options.url)
    if isinstance(body := options.json_data, dict):
        body.update({name: 1 for name in COUNTS if body.get(name) == 0})
        if body.get("model") == "text-embedding-3-small":
            body["model"] = "openai/text-embedding-3-small"
        if options.url == "/responses":
            options.json_data = {**RESPONSE, **body}
    if options.params.get("limit") == 0:
        others = {k: v for k, v in options.params.items() if k != "after"}
        options.params = {**others, "limit": 1}
    return build_request(client, options, **more)


def pytest_configure() -> None:
    for client in (openai.OpenAI, openai.AsyncOpenAI):
        client._build_request = _build  # type: ignore[method-assign,assignment]
