"""Errors between this server and a provider.

Invalid
├── EmbedderMisconfigured the configured embedder is not available
└── RequestRefused        the provider refused what the caller sent
    └── ContentFiltered   its content filter did: no failover
Unavailable
├── EmbedderDown          the offline embedding model cannot be loaded
└── LocalModelDown        kind local, and its server is not running
Upstream
├── ModelUnknown          no such model there, or a wrong base_url
├── KeyRefused            the configured key is wrong or may not do this
├── OutOfCredit           the account of the key has no credit
├── ProviderUnavailable
│   ├── RateLimited       too many requests for that account
│   │   └── ProviderBusy  our own limits of the provider are reached
│   └── Overloaded        the provider is busy or broken (408, 409, 5xx)
│       └── CircuitOpen   repeated failures: no requests for a while
├── Unreachable           no connection: name, network, TLS
├── ProviderDisconnected  the connection broke
├── TimedOut              connect, first token, idle or total
└── BrokenReply           a malformed or incomplete reply

`retryable` is true if a repeat of the call a moment later may succeed.
"""

from typing import ClassVar, Literal

from core.errors import Invalid, Unavailable, Upstream

CONTEXT_TOO_LONG = "context_length_exceeded"
"""The code of a prompt that exceeds the context window of a model."""
WaitPhase = Literal["connect", "first_token", "idle", "total"]


class RequestRefused(Invalid):
    """The provider refused the request."""

    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str | None = None,
        *,
        provider: str = "",
        param: str | None = None,
        code: str | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message, param=param, code=code, detail=detail)
        self.provider = provider


class ContentFiltered(RequestRefused):
    """The provider's content filter refused the request."""

    code = "content_filter"


class EmbedderMisconfigured(Invalid):
    """The embedder is misconfigured."""

    retryable: ClassVar[bool] = False


class EmbedderDown(Unavailable):
    """The offline embedding model cannot be loaded."""

    retryable: ClassVar[bool] = False


class LocalModelDown(Unavailable):
    """The local model is not running."""

    code = "local_model_down"
    detail = (
        "`coulisse start` starts it with the server; if you added the provider while "
        "the server was running, run `coulisse restart`"
    )
    retryable: ClassVar[bool] = False


class ProviderFailed(Upstream):
    """The provider failed."""

    retryable: bool = False


class ModelUnknown(ProviderFailed):
    """The provider does not know the model."""

    code = "provider_model_unknown"


class KeyRefused(ProviderFailed):
    """The provider refused the configured key."""

    code = "provider_key_refused"
    is_invalid = True
    """False if the key is valid but lacks the permission for this request."""


class OutOfCredit(ProviderFailed):
    """The provider's account has no credit left."""

    code = "provider_out_of_credit"


class ProviderUnavailable(ProviderFailed):
    """The provider is temporarily unavailable."""

    retryable = True

    def __init__(
        self,
        message: str | None = None,
        *,
        provider: str = "",
        retry_after_seconds: float | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message, provider=provider, detail=detail)
        self.retry_after_seconds = retry_after_seconds


class RateLimited(ProviderUnavailable):
    """The provider's rate limit is exceeded."""

    code = "provider_rate_limited"


class ProviderBusy(RateLimited):
    """The limits that the YAML sets for the provider are reached."""

    code = "provider_busy"


class Overloaded(ProviderUnavailable):
    """The provider is overloaded or broken."""

    code = "provider_overloaded"


class CircuitOpen(Overloaded):
    """The provider failed repeatedly: no requests are sent to it for a while."""

    code = "provider_circuit_open"


class Unreachable(ProviderFailed):
    """The provider cannot be reached."""

    code = "provider_unreachable"
    retryable = True


class ProviderDisconnected(ProviderFailed):
    """The connection to the provider broke."""

    code = "provider_disconnected"
    retryable = True


class TimedOut(ProviderFailed):
    """The provider took too long."""

    code = "provider_timed_out"
    wait: WaitPhase = "total"
    seconds: float = 0


class BrokenReply(ProviderFailed):
    """The provider's reply is malformed or incomplete."""

    code = "provider_broken_reply"
