"""The YAML's `auth:`: the credentials that the API and the studio require.

| id | problem |
|---|---|
| coulisse.E303 | a scope names no scheme, or more than one |
| coulisse.E304 | the scheme does not support `identity` |
| coulisse.E305 | credentials identify users, but `users:` sets a shared user |
| coulisse.E306 | two entries of `basic` have the same username |
| coulisse.E307 | a `redirect_url` is outside its scope |
| coulisse.E308 | a password is shorter than 8 characters |
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from access.authentication.schemes import (
    AuthModel,
    BasicLogin,
    ComparedToken,
    OidcConfig,
    TokensConfig,
)
from access.authentication.secret_digests import MIN_PASSWORD_CHARS, SecretDigest
from access.config import DEFAULT_USER_ID, USERS
from config.sections import Config, Location, Problem, Section

SCOPE_ROOTS = {"admin": "/admin/", "proxy": "/v1/"}
"""The paths of each scope's pages."""

SCHEMES = ("basic", "oidc", "tokens")


def _list_or_map(value: Any) -> str:
    return "list" if isinstance(value, list | tuple) else "map"


BasicLogins = Annotated[
    Annotated[BasicLogin, Tag("map")] | Annotated[tuple[BasicLogin, ...], Tag("list")],
    Discriminator(_list_or_map),
    Field(description="One username and password, or a list of them."),
]


class ScopeConfig(AuthModel):
    """The scheme of one scope: exactly one."""

    basic: BasicLogins | None = None
    oidc: OidcConfig | None = Field(
        None, description="Log in through an identity provider (OpenID Connect)."
    )

    @property
    def schemes(self) -> list[str]:
        """The names of the configured schemes: one, after validation."""
        return [key for key in SCHEMES if getattr(self, key, None) is not None]

    @property
    def logins(self) -> tuple[BasicLogin, ...]:
        """The usernames and passwords of `basic`."""
        if self.basic is None:
            return ()
        return (self.basic,) if isinstance(self.basic, BasicLogin) else self.basic


ADMIN_REMEDIES = {
    "tokens": "API tokens are only for /v1; use 'basic' or 'oidc' here, and move "
    "'tokens' to auth.proxy",
    "identity": "the studio does not act for users; move it to auth.proxy",
}


class AdminAuth(ScopeConfig):
    """The logins of the studio."""

    newcomers: Literal["operator", "viewer"] = Field(
        "operator",
        description="The role of new accounts: an `operator` may change everything, a "
        "`viewer` has read access.",
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_proxy_keys(cls, value: Any) -> Any:
        for key, reason in ADMIN_REMEDIES.items():
            if isinstance(value, dict) and key in value:
                raise ValueError(f"cannot have '{key}': {reason}")
        return value


class ProxyAuth(ScopeConfig):
    """The credentials for `/v1` and `/mcp`, and the users they act for."""

    tokens: TokensConfig | None = Field(
        None, description="`{}`: API tokens, created with `coulisse token create`."
    )
    identity: Literal["from_request", "from_credential"] | None = Field(
        None,
        description="`from_request` (the default): each request names its user. "
        "`from_credential`: the user is the username or the provider's `sub`.",
    )

    @property
    def binds_users(self) -> bool:
        """Whether the credential determines the user of a request."""
        return self.tokens is not None or self.identity == "from_credential"


class AuthConfig(AuthModel):
    """Authentication of each scope. A scope that is left out needs no credential."""

    mcp_consumer_secret: ComparedToken | None = Field(
        None,
        description="The bearer token with which your backend creates the links that "
        "connect users to MCP servers. Unset: no links can be created.",
    )
    admin: AdminAuth | None = Field(
        None,
        description="The login of the studio. Unset: the studio is available only from "
        "this machine.",
    )
    proxy: ProxyAuth | None = Field(
        None,
        description="The credentials for `/v1` and `/mcp`. Unset: none are required.",
    )

    @field_validator("admin", "proxy", mode="before")
    @classmethod
    def _require_scope(cls, value: Any) -> Any:
        # Unlike a missing key, an empty one looks as if the scope were closed.
        if value is None:
            raise ValueError("is empty: give it a scheme, or remove it")
        return value

    @property
    def requires_tokens(self) -> bool:
        """Whether `/v1` requires API tokens."""
        return self.proxy is not None and self.proxy.tokens is not None


def check(auth: AuthConfig, config: Config) -> Iterable[Problem]:
    """Refuse schemes that contradict each other, themselves or `users:`."""
    for name, scope in (("admin", auth.admin), ("proxy", auth.proxy)):
        if scope is not None:
            yield from _check_scope(name, scope)
    if auth.proxy is not None:
        yield from _check_identity(auth.proxy)
        yield from _check_users(auth.proxy, config)


def _check_scope(name: str, scope: ScopeConfig) -> Iterable[Problem]:
    """Refuse a scope without a scheme, or with an invalid one."""
    schemes = scope.schemes
    offered = "'basic' or 'oidc'" if name == "admin" else "'basic', 'oidc' or 'tokens'"
    location: Location = ("auth", name)
    if not schemes:
        yield Problem(
            location,
            f"auth.{name} names no scheme; give it {offered}, or remove it",
            "coulisse.E303",
        )
    elif len(schemes) > 1:
        quoted = " and ".join(f"'{scheme}'" for scheme in schemes)
        yield Problem(
            location,
            f"auth.{name} has {quoted}, but a scope has exactly one scheme; keep one",
            "coulisse.E303",
        )
    yield from _check_usernames(name, scope)
    yield from _check_passwords(name, scope)
    if scope.oidc is not None:
        yield from _check_redirect(name, scope.oidc)


def _check_usernames(name: str, scope: ScopeConfig) -> Iterable[Problem]:
    """Refuse a username with two passwords, and an empty list."""
    names = [login.username for login in scope.logins]
    if scope.basic is not None and not names:
        yield Problem(
            ("auth", name, "basic"),
            f"auth.{name}.basic is an empty list, so every login would fail; add a "
            "username and a password",
            "coulisse.E303",
        )
    for position, username in enumerate(names):
        if username in names[:position]:
            yield Problem(
                ("auth", name, "basic", position, "username"),
                f"auth.{name}.basic has the username '{username}' twice; each entry "
                "needs its own 'username'",
                "coulisse.E306",
            )


def _check_passwords(name: str, scope: ScopeConfig) -> Iterable[Problem]:
    """Refuse passwords that are too easy to guess."""
    is_list = not isinstance(scope.basic, BasicLogin)
    for position, login in enumerate(scope.logins):
        if isinstance(login.password, SecretDigest) and login.password.is_short:
            location: Location = ("auth", name, "basic")
            if is_list:
                location = (*location, position)
            yield Problem(
                (*location, "password"),
                f"auth.{name}.basic: the password of '{login.username}' is shorter "
                f"than {MIN_PASSWORD_CHARS} characters; use a longer one",
                "coulisse.E308",
            )


def _check_redirect(name: str, oidc: OidcConfig) -> Iterable[Problem]:
    """Refuse a `redirect_url` outside the scope."""
    path = urlsplit(oidc.redirect_url).path
    is_ambiguous = "//" in path or {".", ".."} & set(path.split("/"))
    if is_ambiguous or not path.startswith(SCOPE_ROOTS[name]):
        yield Problem(
            ("auth", name, "oidc", "redirect_url"),
            f"auth.{name}.oidc: 'redirect_url' must be this server's public address "
            f"with a path under {SCOPE_ROOTS[name]}, such as "
            f"http://localhost:8421{SCOPE_ROOTS[name]}",
            "coulisse.E307",
        )


def _check_identity(proxy: ProxyAuth) -> Iterable[Problem]:
    """Refuse an `identity` that the scheme does not support."""
    location = ("auth", "proxy", "identity")
    if proxy.tokens is not None and proxy.identity is not None:
        yield Problem(
            location,
            "auth.proxy: 'identity' has no effect with 'tokens', since each token "
            "belongs to one user; remove 'identity'",
            "coulisse.E304",
        )
    elif proxy.identity == "from_credential" and not (proxy.basic or proxy.oidc):
        yield Problem(
            location,
            "auth.proxy: 'identity: from_credential' needs a credential; add 'basic' "
            "or 'oidc'",
            "coulisse.E304",
        )


def _check_users(proxy: ProxyAuth, config: Config) -> Iterable[Problem]:
    """Refuse one shared user together with credentials that identify users."""
    if not proxy.binds_users:
        return
    reason = (
        "auth.proxy.tokens binds each request to its token's user"
        if proxy.tokens is not None
        else "auth.proxy has 'identity: from_credential', which binds each request to "
        "its credential's user"
    )
    if config.get(DEFAULT_USER_ID) is not None:
        yield Problem(
            ("default_user_id",),
            f"{reason}, so 'default_user_id' has no effect; remove 'default_user_id'",
            "coulisse.E305",
        )
    if config.get(USERS).mode == "shared":
        yield Problem(
            ("users",),
            f"{reason}, so 'users: shared' has no effect; remove 'users'",
            "coulisse.E305",
        )


AUTH = Section(
    key="auth",
    shape=AuthConfig,
    default=AuthConfig,
    check=check,
    fails_closed=True,
    description="authentication for the API and the studio",
)
