"""The `providers:` map of the YAML."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from config.sections import Section
from config.validation.http_values import UNSENDABLE, Headers
from config.validation.suggestions import did_you_mean

KindName = Literal[
    "anthropic", "cohere", "deepseek", "gemini", "groq", "local", "openai"
]
KIND_NAMES: tuple[KindName, ...] = get_args(KindName)

WAIT_SECONDS = 30.0
"""People leave after that time."""
FALLBACK_WAIT_SECONDS = 10.0
"""Another model begins sooner than one that has been silent for so long."""
SLOW_FIRST_TOKEN_SECONDS = 120.0


def _strip_key(value: Any) -> Any:
    """Return a key without surrounding whitespace; None if it is empty."""
    return (value.strip() or None) if isinstance(value, str) else value


def _check_key(value: SecretStr | None) -> SecretStr | None:
    """Return a key that is valid in a header; raise ValueError for any other."""
    if value is not None and UNSENDABLE.search(value.get_secret_value()):
        raise ValueError(
            "contains a line break or another control character: is it a single key?"
        )
    return value


def normalize_url(value: str) -> str:
    """Return a base URL ready for appending paths; raise ValueError for any other."""
    if not re.match(r"https?://[^/\s?#]+[^\s?#]*$", value):
        raise ValueError(
            "must be an http:// or https:// address without a query, such as "
            "http://localhost:11434/v1"
        )
    if "@" in urlsplit(value).netloc:
        raise ValueError(
            "must not contain a user name or password; put them under headers:, "
            "such as Authorization: Basic ${CREDENTIALS}"
        )
    return value.rstrip("/")


ApiKey = Annotated[
    SecretStr | None, BeforeValidator(_strip_key), AfterValidator(_check_key)
]
BaseUrl = Annotated[str, AfterValidator(normalize_url)]


class Timeouts(BaseModel):
    """Timeouts of calls to a provider, in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connect_seconds: float = Field(
        10, gt=0, description="To open a connection: DNS, network, TLS."
    )
    first_token_seconds: float | None = Field(
        None,
        gt=0,
        description="From a streamed request to the first piece of its reply. Default: "
        "30, and 10 if a fallback can answer; 120 for models on this machine, and for "
        "requests with a `reasoning_effort`.",
    )
    idle_seconds: float | None = Field(
        None,
        gt=0,
        description="From one piece of a reply to the next. Default: 30, and 10 if a "
        "fallback can answer.",
    )
    total_seconds: float = Field(
        600, gt=0, description="The whole call, including retries."
    )

    def first_token(self, *, has_fallback: bool, is_slow: bool) -> float:
        """Return the timeout for the first piece; slow models think before it."""
        if self.first_token_seconds is not None:
            return self.first_token_seconds
        if is_slow:
            return SLOW_FIRST_TOKEN_SECONDS
        return FALLBACK_WAIT_SECONDS if has_fallback else WAIT_SECONDS

    def idle(self, *, has_fallback: bool) -> float:
        """Return the timeout for each further piece."""
        if self.idle_seconds is not None:
            return self.idle_seconds
        return FALLBACK_WAIT_SECONDS if has_fallback else WAIT_SECONDS


class BreakerConfig(BaseModel):
    """The circuit breaker of each endpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    failures: int = Field(
        5,
        ge=0,
        le=1000,
        description="Consecutive failures that open the breaker. `0` disables it.",
    )
    after_seconds: float = Field(
        2,
        ge=0,
        le=3600,
        description="The minimum duration of these failures; retries cover shorter "
        "ones.",
    )
    open_seconds: float = Field(
        5,
        gt=0,
        le=3600,
        description="How long the breaker stays open before a call tries the endpoint. "
        "It doubles each time that call fails, up to `max_open_seconds`.",
    )
    max_open_seconds: float = Field(
        15,
        gt=0,
        le=3600,
        description="The longest that the breaker stays open.",
    )
    probe: Literal["models", "completion", "off"] = Field(
        "models",
        description="How the server finds out by itself, every `open_seconds`, that "
        "the provider answers again: by a request for its models, or for one token.",
    )


class ProviderLimits(BaseModel):
    """The most that all processes together ask of a provider."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    concurrent_calls: int | None = Field(
        None, ge=1, le=1_000_000, description="Calls at the same time."
    )
    requests_per_minute: int | None = Field(
        None, ge=1, le=1_000_000_000, description="Calls per minute."
    )
    tokens_per_minute: int | None = Field(
        None,
        ge=1,
        le=1_000_000_000_000,
        description="Tokens of prompts and replies per minute, counted when a reply "
        "ends.",
    )
    queue: int = Field(
        100,
        ge=0,
        le=1_000_000,
        description="How many calls of each process may wait; more are refused.",
    )
    queue_seconds: float | None = Field(
        None,
        gt=0,
        le=3600,
        description="How long a call may wait. Default: 30, and 10 if a fallback can "
        "answer.",
    )

    @property
    def has_any(self) -> bool:
        return bool(
            self.concurrent_calls or self.requests_per_minute or self.tokens_per_minute
        )

    def longest_wait(self, *, has_fallback: bool) -> float:
        """Return how long a call may wait, in seconds."""
        if self.queue_seconds is not None:
            return self.queue_seconds
        return FALLBACK_WAIT_SECONDS if has_fallback else WAIT_SECONDS


class EndpointConfig(BaseModel):
    """One of several keys or addresses of a provider."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: str | None = Field(
        None,
        max_length=64,
        pattern=r"^\w[\w.-]*$",
        description="Its name in records and the log. Default: its number.",
    )
    api_key: ApiKey = Field(None, description="Its key. Default: the provider's key.")
    base_url: BaseUrl | None = Field(
        None, description="Its address. Default: the provider's address."
    )
    headers: Headers = Field(
        default_factory=dict, description="Additional headers, besides the provider's."
    )
    weight: float = Field(
        1,
        gt=0,
        le=1_000_000,
        description="Its share of the calls: an endpoint of weight 3 receives three "
        "times as many as one of weight 1.",
    )


class ProviderConfig(BaseModel):
    """A provider of models."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        # The input contains keys.
        hide_input_in_errors=True,
        # The entry's name is the default of `kind`.
        json_schema_extra=lambda schema: schema.pop("required"),
    )

    kind: KindName = Field(
        description="The API it speaks. Default: the entry's name. For any "
        "OpenAI-compatible server, use `openai` with a `base_url`."
    )
    api_key: ApiKey = Field(
        None,
        description="The provider's key. Required unless `kind` is `local`, `base_url` "
        "is set, or each of `endpoints` has a key.",
    )
    base_url: BaseUrl | None = Field(
        None,
        description="The address of the API. Default: the kind's address. For "
        "OpenAI-compatible servers it usually ends in `/v1`.",
    )
    headers: Headers = Field(
        default_factory=dict, description="Additional headers of each call."
    )
    endpoints: tuple[EndpointConfig, ...] = Field(
        (),
        max_length=100,
        description="Several keys or addresses, in place of one. Calls are distributed "
        "among them; a failing endpoint is skipped.",
    )
    structured_outputs: Literal["native", "prompt"] | None = Field(
        None,
        description="How replies are made to match a JSON Schema: `native` if the "
        "provider enforces it, `prompt` for instructions in the prompt. Default: by "
        "kind.",
    )
    files: Literal["native", "text"] | None = Field(
        None,
        description="What its models receive of PDFs by id: `native` for the PDF, "
        "`text` for its text. Default: by kind.",
    )
    retries: int = Field(
        2,
        ge=0,
        le=10,
        description="Retries after the first attempt, before the reply begins.",
    )
    timeouts: Timeouts = Field(
        default_factory=lambda: Timeouts(), description="Timeouts of calls."
    )
    breaker: BreakerConfig = Field(
        default_factory=lambda: BreakerConfig(), description="The circuit breaker."
    )
    balance: Literal["weight", "latency"] = Field(
        "weight",
        description="Which of its endpoints receives a call: a random one by `weight`, "
        "or one that has answered soonest of late.",
    )
    limits: ProviderLimits = Field(
        default_factory=lambda: ProviderLimits(),
        description="The most that all processes together ask of it; other calls wait.",
    )

    @field_validator("kind", mode="before")
    @classmethod
    def _check_kind(cls, value: Any) -> Any:
        if not isinstance(value, str) or value in KIND_NAMES:
            return value
        raise ValueError(_unknown_kind_message(value))

    @field_validator("structured_outputs")
    @classmethod
    def _check_structured_outputs(
        cls, value: str | None, info: ValidationInfo
    ) -> str | None:
        if value == "native" and info.data.get("kind") == "anthropic":
            raise ValueError(
                "must be prompt for kind 'anthropic', whose API has no "
                "response_format; or remove it"
            )
        return value

    @field_validator("endpoints")
    @classmethod
    def _check_endpoint_names(
        cls, value: tuple[EndpointConfig, ...], info: ValidationInfo
    ) -> tuple[EndpointConfig, ...]:
        if value and info.data.get("kind") == "local":
            raise ValueError(
                "must be empty for kind 'local': this server starts the only endpoint"
            )
        names = [endpoint_name(number, each) for number, each in enumerate(value)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(
                    f"two are named '{name}' (the default name is the number): give "
                    "each endpoint a unique name"
                )
        return value

    @model_validator(mode="after")
    def _check_key(self) -> "ProviderConfig":
        for number, entry in enumerate(self.per_endpoint()):
            has_access = entry.api_key is not None or entry.base_url is not None
            if not has_access and self.kind != "local":
                subject = f"endpoints[{number}] of a" if self.endpoints else "a"
                raise ValueError(
                    f"{subject} provider of kind '{self.kind}' needs an api_key, for "
                    f"example ${{{self.kind.upper()}_API_KEY}} (is the variable set?)"
                )
        return self

    def per_endpoint(self) -> list["ProviderConfig"]:
        """Return a copy of the entry for each endpoint, as its only one."""
        if not self.endpoints:
            return [self]
        return [
            self.model_copy(
                update={
                    "api_key": self.api_key if one.api_key is None else one.api_key,
                    "base_url": self.base_url if one.base_url is None else one.base_url,
                    "headers": {**self.headers, **one.headers},
                    "endpoints": (),
                }
            )
            for one in self.endpoints
        ]


def endpoint_name(number: int, endpoint: EndpointConfig) -> str:
    """Return an endpoint's name, by default its number."""
    return endpoint.name or str(number + 1)


def _unknown_kind_message(name: str) -> str:
    hint = did_you_mean(name.lower(), KIND_NAMES) or "."
    return (
        f"'{name}' is not a kind of provider{hint} The kinds are "
        f"{', '.join(KIND_NAMES)}; for any OpenAI-compatible server, use "
        "`kind: openai` with a `base_url`."
    )


def _default_kinds(value: Any) -> Any:
    """Set each missing kind to the entry's name."""
    if not isinstance(value, Mapping):
        return value
    return {name: _with_kind(name, entry) for name, entry in value.items()}


def _with_kind(name: Any, entry: Any) -> Any:
    if isinstance(entry, Mapping) and entry.get("kind") is None:
        return {**entry, "kind": name}
    # `local:` with nothing under it is a whole entry.
    return {"kind": name} if entry is None else entry


PROVIDERS: Section[dict[str, ProviderConfig]] = Section(
    key="providers",
    shape=Annotated[dict[str, ProviderConfig], BeforeValidator(_default_kinds)],
    default=dict,
    noun="provider",
    required=True,
    description="the model providers and their API keys",
)
