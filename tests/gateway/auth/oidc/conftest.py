"""Fixtures of these tests."""

import httpx2
import pytest

from access.authentication import oidc_tokens
from tests.access.authentication.identity_provider import (
    IdentityProvider,
)
from tests.gateway.auth.oidc.logins import YAML


@pytest.fixture
def idp():
    with IdentityProvider() as idp:
        yield idp
    oidc_tokens.get_provider.cache_clear()


@pytest.fixture
def guarded(running, configure, idp):
    """Return a function that configures the server for the provider."""

    def guarded(old: str = "", new: str = "") -> None:
        text = YAML.replace("ISSUER", idp.issuer).replace("HERE", running)
        assert old in text
        configure(text.replace(old, new) if old else text)

    guarded()
    return guarded


@pytest.fixture
def http(running):
    with httpx2.Client(base_url=running, timeout=60, verify=False) as http:
        yield http
