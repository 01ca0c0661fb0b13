"""Refused requests in the request log and the metrics."""

from datetime import UTC, datetime
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from processes.http_server.refusals import Refusal
from telemetry.metrics import recording
from telemetry.request_log import writer
from telemetry.request_log.writer import REFUSAL_KEY

UNREAD = "unread"
"""The endpoint, in metrics, of requests that are refused before they are read."""


def record_refusal(
    refusal: Refusal, cycle: RequestResponseCycle | None, client: Any
) -> None:
    """Log and count a request that is refused before it has arrived whole.

    `cycle` is the request, if the application serves it already: it then logs and
    counts the refusal with what it knows. The others have neither a method nor a route.
    """
    facts = {"status": refusal.status, "error_code": refusal.code}
    if cycle is not None and not cycle.response_complete:
        cast(dict[str, Any], cycle.scope)[REFUSAL_KEY] = facts
        return
    if recording.active is not None:
        recording.active.request_ended(UNREAD, refusal.status)
    config = writer.active_config()
    if config is None:
        return
    line = {
        "time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z",
        "client": client and client[0],
    }
    writer.WRITER.add({**line, **facts}, config)
