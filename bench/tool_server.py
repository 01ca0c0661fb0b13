"""An MCP server with a known latency: `python -m bench.tool_server`.

It prints its port and serves MCP over streamable HTTP with the SDK until its standard
input ends. Its only tool waits 20 ms.
"""

import asyncio
import socket
import sys
import threading

import uvicorn
from mcp.server.mcpserver import MCPServer

WAIT_MS = 20

tools = MCPServer("waiter", log_level="WARNING")


@tools.tool()
async def wait() -> str:
    """Wait for 20 ms."""
    await asyncio.sleep(WAIT_MS / 1000)
    return f"waited {WAIT_MS} ms"


def main() -> None:
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    application = tools.streamable_http_app(json_response=True, stateless_http=True)
    server = uvicorn.Server(uvicorn.Config(application, log_level="error"))

    def wait_for_end() -> None:
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=wait_for_end, daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
