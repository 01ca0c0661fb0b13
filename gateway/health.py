"""`/health`: liveness and readiness of this process."""

import asyncio

from django.db import connection
from django.http import HttpRequest, HttpResponse

from api_base.json_responses import json_response
from config import live
from core.errors import CoulisseError
from database import database_executor

DATABASE_TIMEOUT_SECONDS = 2
"""A database that takes longer is locked or overloaded."""


async def is_live(request: HttpRequest) -> HttpResponse:
    """Return 200: the process responds."""
    return json_response({"status": "ok"})


async def is_ready(request: HttpRequest) -> HttpResponse:
    """Return 200 if configuration and database work, else 503 with the failed check.

    It calls no model.
    """
    checks = {
        "configuration": _check_configuration(),
        "database": await _check_database(),
    }
    are_ok = all(result == "ok" for result in checks.values())
    return json_response(
        {"status": "ok" if are_ok else "unavailable", "checks": checks},
        status=200 if are_ok else 503,
    )


def _check_configuration() -> str:
    try:
        live.current()
    except CoulisseError:
        return "invalid"
    return "ok"


async def _check_database() -> str:
    try:
        async with asyncio.timeout(DATABASE_TIMEOUT_SECONDS):
            await database_executor.run(_query_database)
    except (CoulisseError, TimeoutError):
        return "unavailable"
    return "ok"


def _query_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM memory_thread LIMIT 1")
        cursor.fetchall()
