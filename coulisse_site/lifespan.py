"""Startup and shutdown of a web process."""

import asyncio
import contextlib
import logging
from typing import Any

from access.audit import config_reloads
from access.users import user_namespace
from agents.skills import skill_registry
from config import live
from core.errors import CoulisseError
from database import database_executor, heartbeat_loop
from database.errors import DatabaseDown
from gateway.asgi.handler import GatewayHandler
from memory.recall import query_preparation
from processes.process_reports import report_of
from providers import client
from providers.pricing import price_table
from providers.transport import circuit_sharing
from safety import background_checks
from studio.live import broadcaster
from studio.server import event_loop_bridge
from tasks.queue import publisher
from telemetry.metrics import recording
from telemetry.tracing import exporter
from turns.structured_output import schema_worker_pool
from turns.tools import mcp_sessions

RETRY_SECONDS = 1.0

logger = logging.getLogger(__name__)


class Lifespan:
    """ASGI's lifespan protocol."""

    def __init__(self, handler: GatewayHandler) -> None:
        self._handler = handler

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        try:
            config = live.load_at_start()
            namespace_task = await _start_establishing_namespace()
            watcher = live.ConfigWatcher(config_reloads.record_reload)
            watcher.start()
            skills_watcher = skill_registry.SkillWatcher(config)
            skills_watcher.start()
        except Exception as exc:
            await send({"type": "lifespan.startup.failed", "message": str(exc)})
            return
        event_loop_bridge.attach_loop()
        live_task = broadcaster.start()
        opened = contextlib.AsyncExitStack()
        await opened.enter_async_context(recording.sampled("web"))
        await opened.enter_async_context(heartbeat_loop.sent(report_of("web")))
        preload = asyncio.create_task(_preload())
        discovery = asyncio.create_task(mcp_sessions.discover_tools())
        sharing = asyncio.create_task(circuit_sharing.run())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        namespace_task.cancel()
        await broadcaster.stop(live_task)
        await preload
        discovery.cancel()
        sharing.cancel()
        await asyncio.gather(discovery, sharing, return_exceptions=True)
        watcher.stop()
        skills_watcher.stop()
        await self._handler.drain()
        await background_checks.wait_for_all()
        event_loop_bridge.detach_loop()
        await mcp_sessions.close_sessions()
        await database_executor.wait_for_writes()
        await asyncio.to_thread(publisher.flush)
        await schema_worker_pool.close()
        await client.close()
        await opened.aclose()
        await asyncio.to_thread(exporter.close)
        await send({"type": "lifespan.shutdown.complete"})


async def _start_establishing_namespace() -> "asyncio.Task[None]":
    """Establish the namespace of users' ids, later if the database is unavailable.

    Raises `NamespaceMismatch` and `SecretsInvalid`, which prevent the start.
    """
    with contextlib.suppress(DatabaseDown):
        await database_executor.run_to_end(user_namespace.establish)
    return asyncio.create_task(_establish_namespace())


async def _establish_namespace() -> None:
    """Wait for the database; until it answers, requests of named users receive 503."""
    while True:
        try:
            await database_executor.run_to_end(user_namespace.establish)
        except DatabaseDown:
            await asyncio.sleep(RETRY_SECONDS)
        except CoulisseError as exc:
            logger.error("requests of users are refused: %s", exc)
            return
        else:
            return


async def _preload() -> None:
    """Load embedder and prices, so that the first turns need not."""
    results = await asyncio.gather(
        asyncio.to_thread(query_preparation.warm),
        asyncio.to_thread(price_table.warm),
        asyncio.to_thread(exporter.warm, live.current()),
        return_exceptions=True,
    )
    for error in results:
        # An exception raised here would prevent an orderly stop.
        if error is not None:
            logger.error("preloading failed", exc_info=error)
