"""Fixtures of the tests of memory."""

import pytest

from config import live
from memory.extraction import notifier
from memory.models import ExtractionJob
from tests.memory.extraction_harness import CONFIG, load_config, new_user


@pytest.fixture
def alone(database, monkeypatch):
    """No jobs but this test's, and no queue to send messages to."""
    ExtractionJob.objects.all().delete()
    monkeypatch.setattr(notifier, "notify", lambda: None)
    before = live._current
    yield
    live.set_current(before)
    ExtractionJob.objects.all().delete()


@pytest.fixture
def owner():
    return new_user()


@pytest.fixture
def config(fake, tmp_path):
    """Put a YAML in force, whose fields a test may give."""

    def use_config(text: str = CONFIG, **more: str):
        return load_config(fake, tmp_path / "coulisse.yaml", text, **more)

    use_config()
    return use_config
