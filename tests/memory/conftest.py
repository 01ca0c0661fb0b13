"""Fixtures of the tests of memory."""

import pytest

from config import live
from memory.extraction import notifier
from memory.models import ExtractionJob
from tests.memory.extraction_harness import CONFIG, load_config, new_user


@pytest.fixture
def alone(database, monkeypatch):
    """Remove the jobs of other tests, and send no messages."""
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
    """Return a function that activates a YAML with these fields."""

    def use_config(text: str = CONFIG, **more: str):
        return load_config(fake, tmp_path / "coulisse.yaml", text, **more)

    use_config()
    return use_config
