"""Logins at an identity provider."""

import time

from tests.conftest import CONFIG
from tests.gateway.calls import bearer

YAML = (
    CONFIG
    + """
auth:
  proxy:
    oidc:
      issuer_url: ISSUER
      client_id: coulisse
      client_secret: client-secret
      redirect_url: HERE/v1/
    identity: from_credential
"""
)


def status(http, token: str) -> int:
    return http.get("/v1/models", headers=bearer(token)).status_code


def now(seconds: int) -> int:
    return int(time.time()) + seconds
