"""The studio's addresses, with objects of the database for their parameters."""

import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection
from django.test import AsyncRequestFactory
from django.urls import URLPattern, URLResolver, get_resolver

from access.authentication import accounts
from access.models import ApiToken
from config import live
from demo.sample_users import SampleUser
from experiments.config import EXPERIMENTS
from judges.config import JUDGES
from mcp_bridge.config import MCP
from memory.facts import public_ids
from memory.models import Fact
from smoke.config import SMOKE_TESTS
from smoke.models import SmokeRun
from studio.server.asgi_handler import StudioHandler
from tasks.models import Task
from telemetry.models import Turn

PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
EXCLUDED = ("export", "openapi.json", "<path:rest>", "tables/", "events", "storage")
"""Downloads, missing pages, and Django's own lists."""
FILTERED = (
    "/admin/spend?by=day",
    "/admin/spend?by=model",
    "/admin/spend?by=token",
    "/admin/spend?by=user",
    "/admin/spend?by=user&since=90d",
    "/admin/spend?since=24h",
    "/admin/spend?since=7d",
    "/admin/turns?outcome=error",
    "/admin/turns?agent=rota",
    "/admin/tasks?state=errored",
    "/admin/tasks?state=queued",
    "/admin/tasks?agent=rota",
    "/admin/tasks?kind=judge",
    "/admin/users?q=ada.almeida@demo.example",
    "/admin/tokens?all=1",
    "/admin/audit?action=token",
    "/admin/audit?actor=vera",
    "/admin/memory?user=ada.almeida@demo.example&q=seats",
)
"""Addresses with the filters of forms and links."""

handler = StudioHandler()
handler.load_middleware()
factory = AsyncRequestFactory()


def get(address: str) -> tuple[int, list[tuple[str, float]]]:
    """Return the status of a page, and its queries with their seconds."""
    queries: list[tuple[str, float]] = []

    def record(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        started_at = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            queries.append((sql, time.perf_counter() - started_at))

    request = factory.get(address, headers={"accept": "text/html"})
    request.META["HTTP_HOST"] = "localhost"
    request.urlconf = settings.COULISSE_STUDIO_URLCONF
    with connection.execute_wrapper(record):
        response = handler.get_response(request)
    return response.status_code, queries


@cache
def _backend() -> Path | None:
    """Return the CPU counter of our PostgreSQL backend; None if there is none."""
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        # The counter does not include parallel workers.
        cursor.execute("SET max_parallel_workers_per_gather = 0")
        cursor.execute("SELECT pg_backend_pid()")
        path = Path(f"/proc/{cursor.fetchone()[0]}/schedstat")
    return path if path.exists() else None


def database_seconds() -> float:
    """Return the CPU time of the PostgreSQL backend; 0 if it is unknown."""
    path = _backend()
    return int(path.read_text().split()[0]) / 1e9 if path else 0.0


def addresses() -> list[str]:
    """Return the addresses of all pages, with and without filters."""
    accounts.get_or_create_user("vera")
    resolver = get_resolver(settings.COULISSE_STUDIO_URLCONF)
    pages = dict.fromkeys(_fill(route) for route in _routes(resolver))
    return [*sorted(page for page in pages if page is not None), *FILTERED]


def _routes(resolver: URLResolver, before: str = "/") -> Iterator[str]:
    for pattern in resolver.url_patterns:
        route = before + str(pattern.pattern)
        if any(part in route for part in EXCLUDED):
            continue
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern, route)
        elif _has_page(pattern):
            yield route


def _has_page(pattern: URLPattern) -> bool:
    view = getattr(pattern.callback, "view_class", None) or getattr(
        pattern.callback, "cls", None
    )
    is_readable = "get" in getattr(view, "http_method_names", ()) and hasattr(
        view, "get"
    )
    return is_readable and bool(getattr(view, "template", ""))


def _fill(route: str) -> str | None:
    """Return the address of an existing object, or None."""
    kind = route.split("/")[2]
    address = route
    for name in PARAMETER.findall(route):
        value = _sample(kind, name, route)
        if value is None:
            print(f"no object for {route}")
            return None
        address = PARAMETER.sub(str(value), address, count=1)
    return address


def _sample(kind: str, name: str, route: str) -> Any:
    """Return an object with much data."""
    config, busiest = live.current(), SampleUser(0).user_id
    if name == "user":
        return busiest
    if "/facts/" in route:
        return public_ids.format_fact_id(
            _newest(Fact.objects.filter(user_id=busiest), "created_at")
        )
    if "/runs/" in route:
        return _newest(SmokeRun.objects.all(), "created_at")
    samples = {
        "agents": lambda: "front-desk",
        "experiments": lambda: next(iter(config.get(EXPERIMENTS)), None),
        "judges": lambda: next(iter(config.get(JUDGES)), None),
        "accounts": lambda: "vera",
        "smoke": lambda: next(iter(config.get(SMOKE_TESTS)), None),
        "tasks": lambda: _newest(Task.objects.filter(kind="agent"), "created_at"),
        "tokens": lambda: _newest(ApiToken.objects.all(), "created_at"),
        "triggers": lambda: "evening-report",
        "settings": lambda: "limits",
        "turns": lambda: _newest(Turn.objects.filter(tool_calls__gt=2), "started_at"),
        "mcp": lambda: next(iter(config.get(MCP)), None),
        "providers": lambda: "openai",
    }
    sample = samples.get(kind)
    return None if sample is None else sample()


def _newest(rows: Any, by: str) -> Any:
    return rows.order_by(f"-{by}").values_list("pk", flat=True).first()
