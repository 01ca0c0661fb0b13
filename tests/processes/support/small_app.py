"""A minimal application for servers: health, its pid, and slow streams."""

import asyncio
import os
import time
from typing import Any

if os.environ.get("SMALL_APP") == "broken":
    raise RuntimeError("this application is broken")


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    await send(
        {
            "type": "http.response.start",
            "status": 503 if os.environ.get("SMALL_APP") == "never ready" else 200,
            "headers": [(b"content-type", b"text/plain")],
        }
    )
    if scope["path"] == "/stream":
        for _ in range(5):
            await send(body(b"tick\n", more=True))
            await asyncio.sleep(0.1)
    if scope["path"] == "/endless":
        await endless(send)
    if scope["path"] == "/hanging":
        await send(body(b"tick\n", more=True))
        time.sleep(60)  # noqa: ASYNC251  hangs the loop on purpose
    await send(body(str(os.getpid()).encode()))


async def endless(send: Any) -> None:
    while True:
        await send(body(b"tick\n", more=True))
        await asyncio.sleep(0.1)


async def lifespan(receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


def body(content: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": content, "more_body": more}
