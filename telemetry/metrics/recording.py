"""Switches the recording of this process on and off, as the YAML says.

`active` is what counts: code that has something to count asks whether it is None, which
is all that metrics cost while they are off.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from django.utils.module_loading import import_string

from config import live
from config.errors import ConfigInvalid
from telemetry.config import TELEMETRY
from telemetry.metrics.figures import Figure
from telemetry.metrics.process_files import ProcessFiles, Role, metrics_directory

if TYPE_CHECKING:
    from telemetry.metrics.recorder import Recorder

SAMPLE_SECONDS = 1.0
RECORDER = "telemetry.metrics.recorder.Recorder"
RENDER = "telemetry.metrics.exposition.render"
SAMPLE = "telemetry.metrics.process_gauges.sample"
"""By name: prometheus-client takes 40 ms to load, which servers without metrics save.
"""

active: "Recorder | None" = None
"""The recorder of this process; None while metrics are off."""

logger = logging.getLogger(__name__)

_opened: "Recorder | None" = None
_problem = ""
"""The last one that was logged."""


def update(role: Role) -> None:
    """Record from now on or no longer, and write the gauges of this process.

    Never raises: the server works without metrics. A problem, such as a full disk, is
    logged once.
    """
    global active, _problem
    try:
        active = (_opened or _open(role)) if _is_enabled() else None
        if active is not None:
            import_string(SAMPLE)(active)
        _problem = ""
    except Exception as exc:
        if str(exc) != _problem:
            logger.exception("could not write the metrics of this process")
        _problem = str(exc)


def render(accept: str, figures: Sequence[Figure]) -> tuple[bytes, str]:
    """Return what `exposition.render` does for this machine; raises OSError."""
    rendered: tuple[bytes, str] = import_string(RENDER)(
        accept, metrics_directory(), figures
    )
    return rendered


def _is_enabled() -> bool:
    try:
        return live.current().get(TELEMETRY).metrics.enabled
    except ConfigInvalid:
        return False


def _open(role: Role) -> "Recorder":
    global _opened
    files = ProcessFiles(metrics_directory(), role)
    try:
        recorder: Recorder = import_string(RECORDER)(files)
    except BaseException:
        files.close()
        raise
    _opened = recorder
    return recorder


def close() -> None:
    """Release the files of this process."""
    global active, _opened
    if _opened is not None:
        _opened.close()
    active = _opened = None


@asynccontextmanager
async def sampled(role: Role) -> AsyncIterator[None]:
    """Follow the YAML, and measure this event loop, until the block ends."""
    update(role)
    sampling = asyncio.create_task(_sample(role))
    try:
        yield
    finally:
        sampling.cancel()
        with suppress(asyncio.CancelledError):
            await sampling
        close()


async def _sample(role: Role) -> None:
    time = asyncio.get_running_loop().time
    while True:
        due_at = time() + SAMPLE_SECONDS
        await asyncio.sleep(SAMPLE_SECONDS)
        if active is not None:
            active.loop_lag.observe(max(0.0, time() - due_at))
        update(role)
