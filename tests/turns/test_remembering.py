"""What is made ready before anybody is remembered."""

import pytest

from memory import memory_settings
from memory.recall import query_preparation
from providers.errors import EmbedderMisconfigured


@pytest.mark.usefixtures("server")
def test_failed_warmup_is_logged_and_stops_nothing(monkeypatch, caplog):
    def fail(config):
        raise EmbedderMisconfigured("embed_with.model: there is none")

    monkeypatch.setattr(memory_settings, "resolve_for_users", fail)
    query_preparation.warm()
    assert "embed_with.model: there is none" in caplog.text
