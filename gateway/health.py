"""`/health`: liveness and readiness of this process."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from api_base.json_responses import json_response
from config import live
from core.errors import CoulisseError
from core.runtime import process_stop
from database.running_processes import STATE


async def is_live(request: HttpRequest) -> HttpResponse:
    """Return 200: the process responds."""
    return json_response({"status": "ok"})


async def is_ready(request: HttpRequest) -> HttpResponse:
    """Return 200 if the YAML is valid and rows can be stored, else 503 with the reason.

    It asks neither the database nor a model: heartbeats do. A stopping process is not
    ready, though it still answers.
    """
    if process_stop.has_begun():
        return json_response({"status": "stopping", "checks": {}}, status=503)
    checks = {
        "configuration": _check_configuration(),
        "database": "unavailable" if STATE.find_problem() else "ok",
    }
    are_ok = all(result == "ok" for result in checks.values())
    content: dict[str, Any] = {
        "status": "ok" if are_ok else "unavailable",
        "checks": checks,
    }
    if warnings := STATE.warnings():
        content["warnings"] = warnings
    return json_response(content, status=200 if are_ok else 503)


def _check_configuration() -> str:
    try:
        live.current()
    except CoulisseError:
        return "invalid"
    return "invalid" if live.override_error() else "ok"
