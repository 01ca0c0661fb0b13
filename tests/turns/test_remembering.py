"""What is made ready before anybody is remembered."""

import pytest

from memory import plan
from providers.errors import EmbedderMisconfigured
from turns import remembering


@pytest.mark.usefixtures("server")
def test_what_cannot_be_made_ready_is_said_and_stops_nothing(monkeypatch, caplog):
    def fail(config):
        raise EmbedderMisconfigured("embed_with.model: there is none")

    monkeypatch.setattr(plan, "of_users", fail)
    remembering.warm()
    assert "embed_with.model: there is none" in caplog.text
