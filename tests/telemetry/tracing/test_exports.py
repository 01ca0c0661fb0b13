"""Exports: protocols, headers, and collectors that are away or slow."""

import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest

from config import live
from config.sections import Config
from telemetry.config import TelemetryConfig
from telemetry.tracing import exporter, sdk_pipeline, spans, turn_spans
from telemetry.tracing.config import OtlpConfig
from tests.gateway.calls import ask
from tests.mcp_bridge.conftest import TEST_SECONDS
from tests.telemetry.sample_turns import make_record
from tests.telemetry.tracing.collector import grpc_collector

ROOT = Path(__file__).resolve().parents[3]
AWAY = "http://127.0.0.1:9"


def config_of(otlp: OtlpConfig | None) -> Config:
    return Config(Path("c.yaml"), {"telemetry": TelemetryConfig(otlp=otlp)})


def export(url: str, **settings) -> OtlpConfig:
    """Export the span of a turn."""
    otlp = OtlpConfig(endpoint=url, **{"protocol": "http", **settings})
    turn_spans.export(make_record(), spans.start_trace(otlp), config_of(otlp))
    return otlp


def test_spans_are_exported_over_grpc():
    with grpc_collector() as collector:
        export(collector.url, protocol="grpc", headers={"X-Key": "abc"})
        [turn] = collector.wait_for("turn")
        assert turn.attributes["agent"] == "assistant"
        assert collector.headers[0]["x-key"] == "abc"
        exporter.close()


@pytest.mark.parametrize("protocol", ["http", "http_binary"])
def test_spans_are_exported_over_http(collector, protocol):
    export(
        collector.url,
        protocol=protocol,
        headers={"X-Key": "abc"},
        service_name="shop",
    )
    collector.wait_for("turn")
    assert collector.headers[0]["x-key"] == "abc"
    assert collector.headers[0]["content-type"] == "application/x-protobuf"
    assert collector.resource["service.name"] == "shop"


def test_path_of_the_endpoint_is_kept(collector):
    export(f"{collector.url}/api/public/otel/v1/traces")
    collector.wait_for("turn")
    assert collector.paths == ["/api/public/otel/v1/traces"]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    records = [each for each in caplog.records if each.levelno >= logging.WARNING]
    # Pytest shows what OpenTelemetry logs, too; the log does not.
    return [r.getMessage() for r in records if not r.name.startswith("opentelemetry")]


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_unreachable_collector_is_logged_once_a_minute(caplog, monkeypatch, protocol):
    monkeypatch.setattr(sdk_pipeline, "EXPORT_SECONDS", 0.2)
    otlp = export(AWAY, protocol=protocol)
    exporter._pipeline.flush()
    for _ in range(3):
        export(AWAY, protocol=protocol)
        exporter._pipeline.flush()
    [line] = warnings(caplog)
    assert line.startswith(f"lost 1 spans, which {otlp.url} did not accept: ")
    assert line.endswith("; check telemetry.otlp")
    monkeypatch.setattr(sdk_pipeline, "LOG_SECONDS", 0.0)
    export(AWAY, protocol=protocol)
    exporter._pipeline.flush()
    assert warnings(caplog)[1].startswith("lost 4 spans")


def test_refusing_collector_is_logged(collector, caplog):
    collector.status = 401
    export(collector.url)
    exporter._pipeline.flush()
    [line] = warnings(caplog)
    assert "401" in line


def test_full_queue_drops_the_oldest_spans(collector, monkeypatch):
    monkeypatch.setattr(sdk_pipeline, "MAX_QUEUE", 4)
    monkeypatch.setattr(sdk_pipeline, "MAX_BATCH", 4)
    collector.released.clear()
    for _ in range(20):
        export(collector.url)
    collector.released.set()
    exporter._pipeline.flush()
    assert 4 <= len(collector.spans) <= 9


@pytest.mark.database
def test_turn_does_not_wait_for_a_hanging_collector(trace, client, collector, user):
    trace()
    collector.released.clear()
    started = time.monotonic()
    for _ in range(5):
        ask(client, user, "hi")
    assert not collector.spans
    assert time.monotonic() - started < TEST_SECONDS
    collector.released.set()
    assert len(collector.wait_for("turn", 5)) == 5


def test_close_sends_what_is_queued(collector, monkeypatch):
    monkeypatch.setattr(sdk_pipeline, "DELAY_SECONDS", 3600)
    export(collector.url)
    assert collector.spans == []
    exporter.close()
    assert len(collector.named("turn")) == 1


def test_close_gives_up_on_a_hanging_collector(collector, monkeypatch):
    monkeypatch.setattr(sdk_pipeline, "EXPORT_SECONDS", 0.2)
    monkeypatch.setattr(sdk_pipeline, "CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(sdk_pipeline, "MAX_BATCH", 1)
    collector.released.clear()
    for _ in range(50):
        export(collector.url)
    started = time.monotonic()
    exporter.close()
    assert time.monotonic() - started < 5


def test_edited_configuration_changes_the_exporter(collector):
    before = live.current_or_none()
    export(AWAY, service_name="old")
    old = exporter._pipeline
    otlp = OtlpConfig(endpoint=collector.url, protocol="http", service_name="new")
    try:
        live.set_current(config_of(otlp))
        assert exporter._pipeline is not old
        export(collector.url, service_name="new")
        collector.wait_for("turn")
        assert collector.resource["service.name"] == "new"
        live.set_current(config_of(None))
        assert exporter._pipeline is None
    finally:
        live._current = before


def test_edit_starts_no_exporter_in_a_process_without_spans():
    exporter.follow(config_of(OtlpConfig(endpoint=AWAY)))
    assert exporter._pipeline is None


PROCESS = """
import sys, django
django.setup()
import coulisse_site.asgi
names = "opentelemetry.sdk.trace", "opentelemetry.exporter", "grpc"
assert not [name for name in names if name in sys.modules]
"""


def test_server_without_traces_loads_no_exporter():
    subprocess.run(
        [sys.executable, "-c", PROCESS],
        cwd=ROOT,
        env={"DJANGO_SETTINGS_MODULE": "coulisse_site.settings"},
        check=True,
    )
