"""The checks of `coulisse check` for valid but unwise credentials and limits.

| id | problem |
|---|---|
| coulisse.W301 | all clients share one username, and so one user |
| coulisse.W302 | an identity provider is reached over plain http |
| coulisse.W303 | a limit applies to API tokens, but none are required |
| coulisse.W304 | a password is shorter than 12 characters |
| coulisse.W305 | `mcp_consumer_secret` is easy to guess |
| coulisse.W306 | users' ids can be computed from names, and clients may send ids |
| coulisse.E309 | `COULISSE_USER_NAMESPACE` differs from the database's |
| coulisse.E310 | `COULISSE_USER_NAMESPACE` is not a UUID, or its file is unreadable |
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from django.core import checks

from access.authentication.config import AUTH, AuthConfig, ScopeConfig
from access.authentication.secret_digests import SAFE_PASSWORD_CHARS, SecretDigest
from access.config import USERS
from access.limits.config import LIMITS, Limit
from access.users import user_namespace
from config.errors import SecretsInvalid
from config.loading import checked_file
from core.network.loopback import is_loopback

PUBLIC_NAMESPACE_WARNING = (
    "this installation derives user ids from names in a public namespace, as older "
    "versions did: a client that knows a user's name can compute the id and send it "
    "as a UUID. Set 'users: {accept_uuids: false}' if no client sends UUIDs, or bind "
    "users to credentials; only a new database can have its own namespace "
    "(docs/users.md)"
)


@checks.register
def check_auth(**_: Any) -> list[checks.CheckMessage]:
    """Warn of authentication settings that may not do what the operator expects."""
    config = checked_file.load()
    if config is None:
        return []
    warnings = find_warnings(config.get(AUTH), config.get(LIMITS))
    return [checks.Warning(message, id=check_id) for check_id, message in warnings]


@checks.register
def check_user_namespace(**_: Any) -> list[checks.CheckMessage]:
    """Report a namespace that is public, or differs from the database's."""
    config = checked_file.load()
    if config is None:
        return []
    try:
        status = user_namespace.inspect()
    except SecretsInvalid as exc:
        return [checks.Error(str(exc), id="coulisse.E310")]
    if status.problem:
        return [checks.Error(status.problem, id="coulisse.E309")]
    if status.is_public and config.get(USERS).accept_uuids:
        return [checks.Warning(PUBLIC_NAMESPACE_WARNING, id="coulisse.W306")]
    return []


def find_warnings(
    auth: AuthConfig, limits: tuple[Limit, ...]
) -> Iterator[tuple[str, str]]:
    """Return the unwise settings, each with its warning id."""
    proxy = auth.proxy
    if proxy is not None and proxy.binds_users and len(proxy.logins) == 1:
        yield (
            "coulisse.W301",
            "auth.proxy.basic has one username and 'identity: from_credential', so "
            "everyone who knows its password is the same user; give each user an "
            "entry of their own, or use 'oidc' or 'tokens'",
        )
    for name, scope in (("admin", auth.admin), ("proxy", proxy)):
        if scope is not None and _uses_plain_http(scope):
            yield (
                "coulisse.W302",
                f"auth.{name}.oidc: 'issuer_url' is plain http to another machine, so "
                "anyone on the network between can log in as any user; use https",
            )
    yield from _weak_secrets(auth)
    if not auth.requires_tokens:
        for index, limit in enumerate(limits):
            if limit.per == "token":
                yield (
                    "coulisse.W303",
                    f"limits[{index}] is per token, but /v1 requires no API tokens, so "
                    "it never applies; set auth.proxy to 'tokens: {}', or use 'per: "
                    "principal'",
                )


def _weak_secrets(auth: AuthConfig) -> Iterator[tuple[str, str]]:
    """Yield a warning for each password and token that is easy to guess."""
    for name, scope in (("admin", auth.admin), ("proxy", auth.proxy)):
        for login in () if scope is None else scope.logins:
            if isinstance(login.password, SecretDigest) and login.password.is_weak:
                yield (
                    "coulisse.W304",
                    f"auth.{name}.basic: the password of '{login.username}' is shorter "
                    f"than {SAFE_PASSWORD_CHARS} characters; use a longer one",
                )
    consumer = auth.mcp_consumer_secret
    if consumer is not None and consumer.is_weak:
        yield (
            "coulisse.W305",
            "auth.mcp_consumer_secret is easy to guess; use a random one, such as the "
            "output of `openssl rand -hex 32`",
        )


def _uses_plain_http(scope: ScopeConfig) -> bool:
    """Return whether a provider is reached over plain http on another machine."""
    if scope.oidc is None:
        return False
    url = urlsplit(scope.oidc.issuer_url)
    return url.scheme != "https" and not is_loopback(url.hostname or "")
