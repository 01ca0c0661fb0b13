"""Requests to tool servers over HTTP have the span of the call."""

from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from tests.conftest import CONFIG, serve
from tests.gateway.calls import ask

pytestmark = pytest.mark.database

AGENT = """
  - name: helper
    provider: openai
    model: gpt-test
    mcp_tools: [{server: tools}]
"""


def test_tool_server_receives_the_span_of_the_call(
    trace, client, collector, fake, user
):
    sent: list[tuple[str, str]] = []
    server = MCPServer("tools")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    application = server.streamable_http_app(host="127.0.0.1")

    async def recorded(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        method = headers.get(b"mcp-method", b"").decode()
        sent.append((method, headers.get(b"traceparent", b"").decode()))
        await application(scope, receive, send)

    with serve(recorded) as url:
        mcp = f'{{tools: {{url: "{url}/mcp", oauth: false}}}}'
        trace(f"{CONFIG}{AGENT}mcp: {mcp}\n")
        for _ in range(2):
            fake.call_tool("add", {"a": 1, "b": 2})
            ask(client, user, "hi", agent="helper")
        calls = collector.wait_for("tool_call", 2)
    spans = [f"00-{span.trace_id}-{span.span_id}-01" for span in calls]
    assert [call.attributes["gen_ai.tool.name"] for call in calls] == ["add"] * 2
    assert [header for method, header in sent if method == "tools/call"] == spans
