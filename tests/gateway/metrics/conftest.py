"""A server that measures, with files of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from gateway import metrics
from telemetry.metrics import recording
from tests.conftest import CONFIG
from tests.telemetry.metrics.scrapes import Scrape

OPEN_METRICS = {"Accept": "application/openmetrics-text"}


def settings_yaml(metrics: str) -> str:
    return f"{CONFIG}\ntelemetry: {{metrics: {metrics}}}\n"


@pytest.fixture
def measure(
    server: str, configure, tmp_path: Path, settings, monkeypatch
) -> Iterator[Callable[..., None]]:
    """Return a function that configures metrics, with files of its own."""
    settings.COULISSE_STATE_DIR = tmp_path / "state"
    monkeypatch.setattr(metrics, "REUSE_SECONDS", 0)
    recording.close()
    yield lambda text="{enabled: true}": configure(settings_yaml(text))
    configure(CONFIG)
    recording.close()


@pytest.fixture
def measured(server: str, measure) -> str:
    """The URL of the server, which measures."""
    measure()
    scrape(server)
    return server


def scrape(server: str, **headers: str) -> Scrape:
    response = httpx2.get(f"{server}/metrics", headers={**OPEN_METRICS, **headers})
    assert response.status_code == 200, response.text
    return Scrape(response.text)
