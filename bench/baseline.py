"""The baseline: only Django, ninja and uvicorn around one provider call.

`python -m bench.baseline --fd N --parent-pipe N` serves it as `processes/web.py` serves
Coulisse, with the same client and provider, but without database, users, history and
configuration. Its handler has no signals and threads; `--stock` uses Django's own one.
"""

import argparse
import gc
import os
import socket
from io import BytesIO
from typing import Any

import orjson
import uvicorn
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponse
from django.urls import path

settings.configure(
    SECRET_KEY="bench",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    MIDDLEWARE=[],
    USE_TZ=True,
)
stock = get_asgi_application()

from ninja import Body, NinjaAPI, Schema  # noqa: E402  Django must be set up first

from core.events import TextDelta, TurnFinished  # noqa: E402
from core.messages import Message  # noqa: E402
from processes.supervision import parent_watch  # noqa: E402
from providers import client  # noqa: E402
from providers.config import ProviderConfig  # noqa: E402
from providers.model_request import ModelRequest  # noqa: E402

PROVIDER = ProviderConfig(
    kind="openai", api_key="sk-bench", base_url=os.environ["BENCH_PROVIDER"]
)
SYSTEM = Message("system", "You are a helpful assistant.")


class BaselineMessage(Schema):
    role: str
    content: str


class BaselineRequest(Schema):
    model: str
    messages: list[BaselineMessage]
    safety_identifier: str | None = None


api = NinjaAPI(docs_url=None, openapi_url=None)


@api.post("/chat/completions")
async def complete(request: HttpRequest, body: Body[BaselineRequest]) -> HttpResponse:
    messages = [Message(message.role, message.content) for message in body.messages]
    call = ModelRequest(model="reply", messages=[SYSTEM, *messages], stream=False)
    text, reason = "", ""
    async for event in client.run("openai", PROVIDER, call):
        if isinstance(event, TextDelta):
            text += event.text
        elif isinstance(event, TurnFinished):
            reason = event.reason
    message = {"role": "assistant", "content": text}
    response: dict[str, Any] = {
        "object": "chat.completion",
        "model": body.model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
    }
    content = orjson.dumps(response)
    return HttpResponse(
        content,
        content_type="application/json",
        headers={"Content-Length": str(len(content))},
    )


urlpatterns = [path("v1/", api.urls)]


class MinimalHandler(ASGIHandler):
    """Django's handler without signals, threads and disconnect checks."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        request, _ = self.create_request(scope, BytesIO(message["body"]))
        await self.send_response(await self.get_response_async(request), send)


class BaselineServer(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--parent-pipe", type=int, required=True)
    parser.add_argument("--stock", action="store_true")
    arguments = parser.parse_args()
    parent_watch.watch_pipe(arguments.parent_pipe, grace_seconds=5)
    config = uvicorn.Config(
        stock if arguments.stock else MinimalHandler(),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
    )
    BaselineServer(config).run(sockets=[socket.socket(fileno=arguments.fd)])


if __name__ == "__main__":
    main()
