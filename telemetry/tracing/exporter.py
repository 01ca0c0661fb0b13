"""Sends spans to the collector: in batches, from a thread, without waiting for it.

What does not fit into the queue, or is not accepted in time, is lost; the log says so
at most once a minute. OpenTelemetry is loaded when the first process needs it.
"""

import atexit
import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.utils.module_loading import import_string

from config.sections import Config
from telemetry.tracing.config import OtlpConfig
from telemetry.tracing.spans import Span, settings_of

if TYPE_CHECKING:
    from telemetry.tracing.sdk_pipeline import Pipeline

PIPELINE = "telemetry.tracing.sdk_pipeline.Pipeline"

logger = logging.getLogger(__name__)

_lock = threading.Lock()
_pipeline: "Pipeline | None" = None


def export(settings: OtlpConfig, spans: Sequence[Span]) -> None:
    """Queue spans; never waits for the collector, and never raises."""
    try:
        pipeline = _pipeline
        if pipeline is None or pipeline.settings != settings:
            pipeline = _open(settings)
        pipeline.add(spans)
    except Exception:
        logger.exception("could not export %d spans", len(spans))


def warm(config: Config) -> None:
    """Load what exports need, so that the first turn need not wait for it."""
    settings = settings_of(config)
    if settings is not None:
        _open(settings)


def follow(config: Config) -> None:
    """Apply a new configuration in a process that already exports."""
    if _pipeline is None:
        return
    settings = settings_of(config)
    if settings is None:
        threading.Thread(target=close, name="otlp-close", daemon=True).start()
    elif settings != _pipeline.settings:
        _open(settings)


def close() -> None:
    """Send what is queued, for a few seconds at most."""
    global _pipeline
    with _lock:
        pipeline, _pipeline = _pipeline, None
    if pipeline is not None:
        pipeline.close()


def _open(settings: OtlpConfig) -> "Pipeline":
    global _pipeline
    with _lock:
        old = _pipeline
        if old is not None and old.settings == settings:
            return old
        # Takes 0.1 s and 20 MB, which processes without traces save.
        pipeline: Pipeline = import_string(PIPELINE)(settings)
        _pipeline = pipeline
    if old is not None:
        # Its last exports may take seconds.
        threading.Thread(target=old.close, name="otlp-close", daemon=True).start()
    return pipeline


atexit.register(close)
