"""Problems of agents that `check` reports."""

import pytest

from config.errors import ConfigInvalid
from config.loading import loader


def test_hedging_needs_a_fallback(tmp_path):
    file = tmp_path / "coulisse.yaml"
    file.write_text(
        "providers: {openai: {api_key: k}}\n"
        "agents: [{name: a, provider: openai, model: m, hedge_after_seconds: 2}]\n"
        "users: shared\n"
    )
    with pytest.raises(ConfigInvalid, match="has no fallbacks that could be asked"):
        loader.load_file(file)
