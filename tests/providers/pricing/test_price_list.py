"""The bundled price list: no network, and providers with several endpoints."""

import socket
from pathlib import Path

from config.sections import Config
from core.events import Usage
from providers.config import PROVIDERS, ProviderConfig
from providers.pricing import call_costs, price_list

OPENAI = Config(
    Path("coulisse.yaml"),
    {
        PROVIDERS.key: {
            "openai": ProviderConfig.model_validate(
                {"kind": "openai", "api_key": "key"}
            )
        }
    },
)


def test_price_list_is_read_without_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    price_list.load_snapshot.cache_clear()
    assert call_costs.call_cost(OPENAI, "openai", "gpt-4o-mini", Usage(1_000, 0)) == 150
    assert not price_list.load_snapshot().from_auto_update


def test_endpoints_with_equal_prices_have_that_price():
    def host(*urls: str) -> Config:
        endpoints = [{"base_url": url} for url in urls]
        given = {"kind": "openai", "endpoints": endpoints, "api_key": "key"}
        values = {PROVIDERS.key: {"p": ProviderConfig.model_validate(given)}}
        return Config(Path("coulisse.yaml"), values)

    own, azure = "https://api.openai.com/v1", "https://x.openai.azure.com/openai/v1"
    same, unlike = host(own, azure), host(own, "http://localhost:11434/v1")
    assert call_costs.call_cost(same, "p", "gpt-4o-mini", Usage(1_000, 0)) == 150
    assert call_costs.call_cost(unlike, "p", "gpt-4o-mini", Usage(1_000, 0)) is None
