"""What `manage.py check` says of credentials and limits that are allowed and not wise.

| id | what is unwise |
|---|---|
| coulisse.W301 | one username for all, which makes one user of them |
| coulisse.W302 | an identity provider is asked over plain http |
| coulisse.W303 | a limit of API tokens where nobody is asked for one |
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from django.core import checks

from access.auth_config import AUTH, AuthConfig, ScopeConfig
from access.limits_config import LIMITS, Limit
from config import checked
from core.loopback import is_loopback


def check_auth(**_: Any) -> list[checks.CheckMessage]:
    """Warn of credentials that will not do what somebody may think they do."""
    config = checked.load()
    if config is None:
        return []
    found = concerns(config.get(AUTH), config.get(LIMITS))
    return [checks.Warning(message, id=kind) for kind, message in found]


def concerns(auth: AuthConfig, limits: tuple[Limit, ...]) -> Iterator[tuple[str, str]]:
    """Return what is unwise, each with its id."""
    proxy = auth.proxy
    if proxy is not None and proxy.binds_users and len(proxy.logins) == 1:
        yield (
            "coulisse.W301",
            "auth.proxy.basic has one username and 'identity: from_credential', so "
            "everyone who knows its password is the same user; give each user an "
            "entry of their own, or use 'oidc' or 'tokens'",
        )
    for name, scope in (("admin", auth.admin), ("proxy", proxy)):
        if scope is not None and _is_in_the_open(scope):
            yield (
                "coulisse.W302",
                f"auth.{name}.oidc: 'issuer_url' is plain http to another machine; "
                "whoever is between can log in as anybody: use https",
            )
    if proxy is None or proxy.tokens is None:
        for index, limit in enumerate(limits):
            if limit.per == "token":
                yield (
                    "coulisse.W303",
                    f"limits[{index}] is per token and never holds, because no request "
                    "carries an API token: set auth.proxy to 'tokens: {}', or limit "
                    "each 'principal'",
                )


def _is_in_the_open(scope: ScopeConfig) -> bool:
    """Return whether a provider is asked over plain http, and not on this machine."""
    if scope.oidc is None:
        return False
    place = urlsplit(scope.oidc.issuer_url)
    return place.scheme != "https" and not is_loopback(place.hostname or "")
