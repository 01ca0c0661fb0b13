"""MCP servers over HTTP: the SDK's, and a misbehaving one."""

import gzip
import json
from typing import Any

from mcp.server.mcpserver import Context, Image, MCPServer

PNG = bytes.fromhex("89504e470d0a1a0a")


def official() -> MCPServer:
    """Return a server made with the SDK."""
    server = MCPServer("official")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two whole numbers."""
        return a + b

    @server.tool()
    async def who(context: Context) -> str:
        """Say who calls."""
        headers = context.request_context.request.headers
        return str(headers.get("authorization"))

    @server.tool(structured_output=False)
    def picture() -> list[Any]:
        """Draw something."""
        return ["a dot", Image(data=PNG, format="png")]

    @server.tool()
    async def ask(context: Context) -> str:
        """Ask the user."""
        await context.session.elicit("Sure?", {"type": "object", "properties": {}})
        return "asked"

    @server.tool()
    async def change(context: Context) -> str:
        """Offer one more tool."""
        server.add_tool(lambda: "new", name="newcomer", description="New.")
        await context.notify_tools_changed()
        await context.session.send_tool_list_changed()
        return "changed"

    @server.tool()
    async def forget(context: Context) -> str:
        """Offer it no more."""
        server.remove_tool("newcomer")
        return "forgotten"

    return server


def without_discovery(app: Any) -> Any:
    """Return an app as servers of the older protocol were: sessions, no discovery."""

    async def older(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if headers.get(b"mcp-method") == b"server/discover":
            await answer(send, 400, {"error": "unknown"})
        else:
            await app(scope, receive, send)

    return older


async def answer(send: Any, status: int, body: Any, *headers: tuple[str, str]) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = [] if dict(headers).get("content-type") else [JSON]
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(k.encode(), v.encode()) for k, v in (*kind, *headers)],
        }
    )
    await send({"type": "http.response.body", "body": raw})


JSON = ("content-type", "application/json")
TOOLS = [
    "ok",
    "drop",
    "empty",
    "hang",
    "html",
    "huge",
    "json",
    "redirect",
    "packed",
    "status_404",
    "status_500",
    "status_503",
    "seen",
]


async def wait_for_disconnect(receive: Any) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


class FaultyServer:
    """A server whose path and tools select its faults."""

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        """The accepted tokens at /guarded."""
        self.refusal = b'{"error": "invalid_token"}'
        """The body of a 401 at /guarded."""
        self.seen: list[str] = []
        """The Authorization of each request."""
        self.sessions = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        headers = {k.decode(): v.decode() for k, v in scope["headers"]}
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        authorization = headers.get("authorization", "")
        self.seen.append(authorization)
        path = scope["path"]
        if path == "/hang":
            await wait_for_disconnect(receive)
        elif path == "/guarded" and authorization not in self.accepted:
            await answer(send, 401, self.refusal)
        elif path.startswith("/status_"):
            await answer(send, int(path[-3:]), b"<html>", ("content-type", "text/html"))
        elif path == "/elsewhere":
            await answer(send, 307, b"", ("location", "http://127.0.0.2:9/mcp"))
        elif scope["method"] != "POST":
            await answer(send, 405, {})
        else:
            await self.rpc(json.loads(body), receive, send)

    async def rpc(self, message: dict, receive: Any, send: Any) -> None:
        id_ = message.get("id")

        async def reply(result: Any, *headers: tuple[str, str]) -> None:
            frame = {"jsonrpc": "2.0", "id": id_, "result": result}
            await answer(send, 200, frame, *headers)

        match message.get("method"):
            case "initialize":
                self.sessions += 1
                info = {"name": "crooked", "version": "1"}
                version = message["params"]["protocolVersion"]
                result = {"protocolVersion": version, "capabilities": {"tools": {}}}
                session = ("mcp-session-id", f"s{self.sessions}")
                await reply(result | {"serverInfo": info}, session)
            case "tools/list":
                schema = {"type": "object"}
                tools = [{"name": name, "inputSchema": schema} for name in TOOLS]
                await reply({"tools": tools})
            case "tools/call":
                await self.call(message["params"]["name"], receive, send, reply)
            case _ if id_ is None:
                await answer(send, 202, b"")
            case _:
                error = {"code": -32601, "message": "Method not found"}
                await answer(send, 200, {"jsonrpc": "2.0", "id": id_, "error": error})

    async def call(  # noqa: C901 (a list)
        self, tool: str, receive: Any, send: Any, reply: Any
    ) -> None:
        match tool:
            case "drop":
                head = [(b"content-type", b"application/json")]
                head.append((b"content-length", b"100"))
                start = {"type": "http.response.start", "status": 200}
                await send({**start, "headers": head})
                await send({"type": "http.response.body", "body": b"{"})
            case "empty":
                await answer(send, 202, b"")
            case "hang":
                await wait_for_disconnect(receive)
            case "html":
                await answer(send, 200, b"<html>", ("content-type", "text/html"))
            case "huge":
                await reply({"content": [{"type": "text", "text": "x" * 20_000_000}]})
            case "json":
                await answer(send, 200, b"{not json")
            case "packed":
                packed = gzip.compress(b"x" * 100_000_000, 1)
                await answer(send, 200, packed, ("content-encoding", "gzip"))
            case "redirect":
                location = ("location", "http://127.0.0.2:9/mcp?secret=1")
                await answer(send, 302, b"", location)
            case "status_404" if self.sessions > 1:
                await reply({"content": [{"type": "text", "text": "after all"}]})
            case _ if tool.startswith("status_"):
                await answer(send, int(tool[-3:]), b"no", ("content-type", "text/html"))
            case "seen":
                await reply({"content": [{"type": "text", "text": str(self.seen)}]})
            case _:
                await reply({"content": [{"type": "text", "text": "ok"}]})
