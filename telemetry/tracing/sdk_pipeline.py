"""OpenTelemetry's exporters, behind a bounded queue and a thread.

Only `exporter` imports this module, when traces are configured.
"""

import logging
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from core.runtime.trace_context import TraceContext
from telemetry.log_output import formatters
from telemetry.tracing.attributes import MAX_CONTENT_LENGTH
from telemetry.tracing.config import OtlpConfig
from telemetry.tracing.spans import NANOSECONDS, Span, Value

EXPORT_SECONDS = 3.0
"""The time of one export, retries included."""
CLOSE_SECONDS = 2.0
"""When a process stops, exports begin for so long."""
DELAY_SECONDS = 2.0
"""The longest wait for more spans before an export."""
MAX_QUEUE = 2048
MAX_BATCH = 512
MAX_CONTENT_BATCH = 32
"""With content, so that a batch is below the 4 MiB that collectors accept."""
LOG_SECONDS = 60.0

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCOPE = InstrumentationScope("coulisse")
KINDS = {
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "consumer": SpanKind.CONSUMER,
    "internal": SpanKind.INTERNAL,
}

logger = logging.getLogger(__name__)


class Pipeline:
    """The exports of one configuration."""

    def __init__(self, settings: OtlpConfig) -> None:
        self.settings = settings
        self._resource = _resource(settings)
        self._exporter = QuietExporter(_build_exporter(settings), settings.url)
        self._processor = BatchSpanProcessor(
            self._exporter,
            max_queue_size=MAX_QUEUE,
            schedule_delay_millis=DELAY_SECONDS * 1000,
            max_export_batch_size=MAX_CONTENT_BATCH if settings.content else MAX_BATCH,
        )

    def add(self, spans: Sequence[Span]) -> None:
        """Queue spans; the oldest are dropped if the queue is full."""
        for span in spans:
            self._processor.on_end(_to_sdk(span, self._resource))

    def flush(self) -> None:
        """Export what is queued, and wait for it."""
        self._processor.force_flush()

    def close(self) -> None:
        """Export what is queued, as far as the time allows."""
        self._exporter.give_up_at = time.monotonic() + CLOSE_SECONDS
        self._processor.shutdown()  # type: ignore[no-untyped-call]


class QuietExporter(SpanExporter):
    """Exports spans; reports failures at most once a minute."""

    def __init__(self, exporter: SpanExporter, url: str) -> None:
        self._exporter = exporter
        self._url = url
        self._lost = 0
        self._logged_at = -LOG_SECONDS
        self.give_up_at: float | None = None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        if self.give_up_at is None or time.monotonic() < self.give_up_at:
            result = self._exporter.export(spans)
        if result is SpanExportResult.FAILURE:
            self._lost += len(spans)
            self._report()
        return result

    def _report(self) -> None:
        now = time.monotonic()
        if now < self._logged_at + LOG_SECONDS:
            return
        logger.warning(
            "lost %d spans, which %s did not accept: %s; check telemetry.otlp",
            self._lost,
            self._url,
            REASONS.last or "the process stops",
        )
        self._logged_at, self._lost = now, 0

    def shutdown(self) -> None:
        self._exporter.shutdown()


class ReasonHandler(logging.Handler):
    """Keeps the last message of OpenTelemetry's loggers, instead of logging each."""

    last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()


REASONS = ReasonHandler()
for each in map(logging.getLogger, ("opentelemetry.exporter", "opentelemetry.sdk")):
    each.addHandler(REASONS)
    each.propagate = False


def _build_exporter(settings: OtlpConfig) -> SpanExporter:
    headers = {
        name.lower(): value.get_secret_value()
        for name, value in settings.headers.items()
    }
    if settings.protocol == "grpc":
        # Its C library writes to stderr by itself.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as grpc

        return grpc.OTLPSpanExporter(
            endpoint=settings.url,
            insecure=settings.url.startswith("http:"),
            headers=headers,
            timeout=EXPORT_SECONDS,
        )
    from opentelemetry.exporter.otlp.proto.http import trace_exporter as http

    return http.OTLPSpanExporter(
        endpoint=settings.url, headers=headers, timeout=EXPORT_SECONDS
    )


def _resource(settings: OtlpConfig) -> Resource:
    return Resource.create(
        {
            "service.name": settings.service_name,
            "service.instance.id": f"{formatters.process_name()}-{os.getpid()}",
            "process.pid": os.getpid(),
        }
    )


def _to_sdk(span: Span, resource: Resource) -> ReadableSpan:
    context, cause = span.context, span.context.cause
    # A float has not enough digits.
    start = (span.started_at - EPOCH) // timedelta(microseconds=1) * 1000
    return ReadableSpan(
        name=span.name,
        context=_span_context(context, context.span_id),
        parent=_span_context(context, context.parent_id) if context.parent_id else None,
        resource=resource,
        attributes=_clean(span.attributes),
        links=[] if cause is None else [Link(_span_context(cause, cause.span_id))],
        kind=KINDS[span.kind],
        instrumentation_scope=SCOPE,
        status=Status(StatusCode.ERROR, _clean_value(span.error))
        if span.has_failed
        else Status(),
        start_time=start,
        end_time=start + int(span.seconds * NANOSECONDS),
    )


def _span_context(context: TraceContext, span_id: str) -> SpanContext:
    return SpanContext(
        int(context.trace_id, 16),
        int(span_id, 16),
        is_remote=False,
        trace_flags=TraceFlags(context.is_sampled),
    )


def _clean(attributes: Mapping[str, Value]) -> dict[str, Any]:
    return {
        name: _clean_value(value)
        for name, value in attributes.items()
        if value is not None and value != ""
    }


def _clean_value(value: Any) -> Any:
    """Return a value that can be encoded: a lone surrogate would cost the batch."""
    if isinstance(value, str):
        return value[:MAX_CONTENT_LENGTH].encode("utf-8", "replace").decode()
    return [_clean_value(each) for each in value] if isinstance(value, list) else value
