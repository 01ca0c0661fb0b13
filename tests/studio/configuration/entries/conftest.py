"""Fixtures for entries: no stored overrides, and all four kinds in the file."""

import pytest

from config.models import Override, OverrideVersion
from tests.studio.configuration.entries.entry_requests import FULL_CONFIG


@pytest.fixture(autouse=True)
def _no_overrides(database):
    delete_overrides()
    yield
    delete_overrides()


@pytest.fixture
def server(running, configure):
    """The server's URL, with all four kinds in its file."""
    configure(FULL_CONFIG)
    return running


def delete_overrides():
    Override.objects.all().delete()
    OverrideVersion.objects.all().delete()
