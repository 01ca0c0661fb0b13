"""Fixtures of the tests of memory."""

import pytest

from config import live
from tasks.models import Task
from tests.memory.extraction_harness import CONFIG, load_config, new_user


@pytest.fixture
def alone(database, monkeypatch):
    """Remove the tasks of other tests."""
    Task.objects.extractions().delete()
    before = live._current
    yield
    live.set_current(before)
    Task.objects.extractions().delete()


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
