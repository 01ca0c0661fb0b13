"""Errors of authentication, user identification, limits and API tokens."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from core.errors import Denied, Invalid, Limited, NotFound, Unauthenticated, Unavailable


class UserRequired(Invalid):
    """safety_identifier is required: it identifies the user. Send it (or the older \
'user')."""

    detail = "or set 'default_user_id' or 'users: shared' in coulisse.yaml"

    def __init__(self) -> None:
        super().__init__(param="safety_identifier", code="user_required")


class ThreadRequired(Invalid):
    """The request names neither a user nor a thread: send 'safety_identifier', or \
'thread_id' in metadata or the header X-Coulisse-Thread (`users: per-thread`)."""

    def __init__(self) -> None:
        super().__init__(param="metadata.thread_id", code="user_required")


class TokenUserRequired(UserRequired):
    """safety_identifier is required: this API token has no user of its own. Send it, \
or a header that names the user."""

    detail = ""


class TooManyParameters(Invalid):
    """The query has more parameters than a request can have."""

    code = "too_many_parameters"


class UserInvalid(Invalid):
    """The user identifier is not valid."""


class NamespaceMismatch(Unavailable):
    """This server's namespace for user ids differs from the one its database was \
first used with."""

    code = "user_namespace_mismatch"


class KeysMismatch(Unavailable):
    """The keys of this process differ from those of the others."""

    code = "keys_mismatch"

    def __init__(self, names: Sequence[str]) -> None:
        verb = "differs from the one" if len(names) == 1 else "differ from those"
        super().__init__(
            detail=f"{' and '.join(sorted(names))} {verb} that this database was "
            "first used with: a session or sign-in that begins at one process would "
            "fail at another. Give all processes the same keys; after a change on "
            "purpose, stop all processes and run `coulisse keys --accept`"
        )


class NamespaceUnknown(Unavailable):
    """The namespace for user ids is not confirmed yet. Try again in a moment."""

    code = "user_namespace_unknown"
    retry_after_seconds = 1


class CredentialRequired(Unauthenticated):
    """This server requires a credential: send your API key as \
`Authorization: Bearer KEY`."""


class CredentialRefused(Unauthenticated):
    """The credential is not valid: it is unknown, revoked or expired."""

    code = "invalid_api_key"


class LoginDelayed(Limited):
    """Too many sign-ins failed. Try again later."""

    code = "login_delayed"

    def __init__(self, seconds: float) -> None:
        count = math.ceil(seconds)
        super().__init__(
            f"Too many sign-ins failed. Try again in {count} "
            f"second{'' if count == 1 else 's'}",
            retry_after_seconds=seconds,
        )


class PasswordChecksBusy(Unavailable):
    """Too many passwords are being checked. Try again in a moment."""

    code = "password_checks_busy"
    retry_after_seconds = 2


class IdentityProviderDown(Unavailable):
    """The identity provider cannot be reached, so the credential cannot be checked."""

    retry_after_seconds = 5

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail=detail)


class IdentityProviderBroken(IdentityProviderDown):
    """The identity provider sent an invalid response."""


class LoginFailed(Unauthenticated):
    """The identity provider did not log you in."""

    code = "login_failed"


class OriginRefused(Denied):
    """Pages of another origin may not use this server."""

    code = "origin_not_allowed"


class IdentityRefused(Denied):
    """The credential belongs to another user than the request names: leave \
safety_identifier out, or name the credential's user."""

    code = "identity_mismatch"


class AgentsOnly(Denied):
    """This API token may call certain agents only. Use a token for all agents."""

    code = "agents_only"


class NewTokenInvalid(Invalid):
    """This token cannot be created."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message, param=param, code="token_invalid")


class TokenUnknown(NotFound):
    """There is no such token."""


class TokenAmbiguous(Invalid):
    """The ids of several tokens begin like this."""

    def __init__(self, id: str, candidates: Sequence[str]) -> None:
        super().__init__(
            f"the ids of several tokens begin with '{id:.80}'; add more characters: "
            + ", ".join(candidates),
            param="id",
        )


class UsageExceeded(Limited):
    """The request exceeds a limit."""

    headers: Mapping[str, str] = MappingProxyType({})
    """The rate limit headers of the response."""


class LimitReached(UsageExceeded):
    """A limit on requests, tokens, money or turns is reached."""

    code = "rate_limit_exceeded"


class BudgetExceeded(UsageExceeded):
    """The API token's budget does not cover the request."""

    code = "insufficient_quota"


class PriceUnknown(Denied):
    """A budget cannot be enforced for a model without a known price."""

    code = "price_unknown"
