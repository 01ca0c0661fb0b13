"""Spans as they are before OpenTelemetry, which is loaded only to export them."""

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from config.sections import Config
from core.runtime import trace_context
from core.runtime.trace_context import TraceContext
from telemetry.config import TELEMETRY
from telemetry.tracing.config import OtlpConfig

SpanKind = Literal["server", "client", "consumer", "internal"]
Value = str | int | float | bool | list[str] | None
NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Span:
    """One span that has ended."""

    name: str
    kind: SpanKind
    context: TraceContext
    started_at: datetime
    seconds: float
    attributes: Mapping[str, Value]
    """Those that are None or "" are left out."""
    has_failed: bool = False
    error: str = ""
    """The text of the error; "" if only `error.type` is shown."""


def settings_of(config: Config) -> OtlpConfig | None:
    """Return where spans are sent; None if they are not."""
    return config.get(TELEMETRY).otlp


def accept(config: Config | None, traceparent: bytes, state: bytes) -> None:
    """Let a client's header be the parent of the turns of its request."""
    if config is not None and settings_of(config) is not None:
        trace_context.current.set(
            trace_context.parse(traceparent.decode("latin-1"), state.decode("latin-1"))
        )


def start_trace(
    settings: OtlpConfig, cause: TraceContext | None = None
) -> TraceContext:
    """Return the first span of a trace, sampled as its cause is, or by chance."""
    is_sampled = (
        random.random() < settings.sample_ratio  # noqa: S311  no secret
        if cause is None
        else cause.is_sampled
    )
    return TraceContext(
        os.urandom(16).hex(), os.urandom(8).hex(), is_sampled, cause=cause
    )
