"""A server whose traces go to a collector of the test."""

import json
from collections.abc import Callable, Iterator

import pytest

from telemetry.tracing import exporter, sdk_pipeline
from tests.conftest import CONFIG
from tests.judges.conftest import judge, worker  # noqa: F401
from tests.tasks.conftest import task_runner, user_id  # noqa: F401
from tests.telemetry.tracing.collector import Collector, http_collector

SUBAGENT = """
  - name: boss
    provider: openai
    model: gpt-test
    subagents: [claude]
"""


@pytest.fixture(autouse=True)
def _prompt_exports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sdk_pipeline, "DELAY_SECONDS", 0.05)
    yield
    exporter.close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with http_collector() as collector:
        yield collector


@pytest.fixture
def trace(server: str, configure, collector: Collector) -> Callable[..., None]:
    """Configure traces to the collector; the arguments are settings of `otlp`."""

    def trace(text: str = CONFIG + SUBAGENT, **settings: object) -> None:
        otlp = {"endpoint": collector.url, "protocol": "http", **settings}
        configure(f"{text}\ntelemetry: {json.dumps({'otlp': otlp})}\n")

    return trace
