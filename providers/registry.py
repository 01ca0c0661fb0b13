"""The kinds of provider: to add one, copy the most similar and add a line."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from core.errors import Invalid
from providers.config import KindName, ProviderConfig
from providers.errors import LocalModelDown
from providers.wires.anthropic import AnthropicWire
from providers.wires.base import Wire
from providers.wires.openai import OpenAIWire

LOCAL_MODEL_URL = "COULISSE_LOCAL_MODEL_URL"

PARAMETERS = frozenset(
    """
    frequency_penalty logit_bias logprobs max_completion_tokens max_tokens moderation
    parallel_tool_calls prediction presence_penalty prompt_cache_key
    prompt_cache_options prompt_cache_retention reasoning_effort response_format seed
    service_tier stop store temperature tool_choice top_logprobs top_p verbosity
    """.split()  # noqa: SIM905 (a line each is no easier to read)
)
"""OpenAI's parameters that endpoints and agents may pass."""

OPENAI_ONLY = {
    "moderation",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "store",
    "verbosity",
}
"""Parameters that no compatible API supports."""

LOG_PROBS = ("logprobs", "top_logprobs")
PENALTIES = ("frequency_penalty", "presence_penalty")

NEUTRAL_VALUES = {
    "frequency_penalty": 0,
    "logit_bias": {},
    "logprobs": False,
    "parallel_tool_calls": True,
    "presence_penalty": 0,
    "service_tier": "auto",
    "store": False,
    "top_logprobs": 0,
}
"""Values equal to the behaviour of providers without the parameter."""

HINTS = OPENAI_ONLY - {"moderation", "verbosity"} | {"seed"}
"""Parameters that promise nothing about the reply, so that providers without them
answer the request all the same."""

EXTRA_PARAMETERS = frozenset(
    """
    cache_control chat_template_kwargs enable_thinking include_reasoning min_p
    min_tokens provider reasoning repetition_penalty thinking top_a top_k transforms
    typical_p usage
    """.split()  # noqa: SIM905
)
"""Parameters of other APIs than OpenAI's that many clients send."""


@dataclass(frozen=True)
class ProviderKind:
    wire: Wire
    base_url: str | None = None
    unsupported_parameters: frozenset[str] | None = None
    """Parameters that its API rejects; None if the provider decides."""
    extra_parameters: frozenset[str] = frozenset()
    """The members of `EXTRA_PARAMETERS` that its API has."""
    structured_outputs: Literal["native", "prompt"] = "prompt"
    files: Literal["native", "text"] = "text"
    """Whether its models read PDFs."""
    takes_prefill: bool = False
    """Whether most of its models continue an answer at the end of the prompt."""


def _unsupported(*names: str) -> frozenset[str]:
    return frozenset(OPENAI_ONLY.union(names))


KINDS: dict[KindName, ProviderKind] = {
    "anthropic": ProviderKind(
        AnthropicWire(),
        "https://api.anthropic.com",
        _unsupported(*PENALTIES, "logit_bias", "seed", *LOG_PROBS),
        frozenset({"cache_control", "thinking", "top_k"}),
        files="native",
        takes_prefill=True,
    ),
    # https://docs.cohere.com/docs/compatibility-api
    "cohere": ProviderKind(
        OpenAIWire(highest_effort="high"),
        "https://api.cohere.ai/compatibility/v1",
        _unsupported("logit_bias", "parallel_tool_calls", "service_tier", *LOG_PROBS),
    ),
    # https://api-docs.deepseek.com/api/create-chat-completion
    "deepseek": ProviderKind(
        OpenAIWire(returns_reasoning=True),
        "https://api.deepseek.com",
        _unsupported("logit_bias", "parallel_tool_calls", "seed", "service_tier"),
        frozenset({"thinking"}),
    ),
    # https://ai.google.dev/gemini-api/docs/openai: unknown fields are a 400.
    "gemini": ProviderKind(
        # A tool without arguments is a 400 as well, unless it has no `parameters`.
        OpenAIWire(
            returns_signatures=True,
            sends_empty_parameters=False,
            filters_silently=True,
            highest_effort="high",
        ),
        "https://generativelanguage.googleapis.com/v1beta/openai",
        _unsupported(*PENALTIES, "logit_bias", "seed", "service_tier", *LOG_PROBS),
    ),
    # https://console.groq.com/docs/openai
    "groq": ProviderKind(
        OpenAIWire(
            max_tokens_as="max_completion_tokens",
            sends_message_names=False,
            highest_effort="high",
        ),
        "https://api.groq.com/openai/v1",
        _unsupported("logit_bias", *LOG_PROBS),
        takes_prefill=True,
    ),
    "local": ProviderKind(
        OpenAIWire(highest_effort="high"),
        unsupported_parameters=frozenset({"store"}),
        extra_parameters=frozenset({"chat_template_kwargs", "min_p", "top_k"}),
        structured_outputs="native",
        takes_prefill=True,
    ),
    "openai": ProviderKind(
        # The reasoning models refuse max_tokens; all take its successor.
        OpenAIWire(max_tokens_as="max_completion_tokens", user_as="safety_identifier"),
        "https://api.openai.com/v1",
        structured_outputs="native",
        files="native",
    ),
}

COMPATIBLE = ProviderKind(
    OpenAIWire(sends_cache_control=True), extra_parameters=EXTRA_PARAMETERS
)
"""Any OpenAI-compatible server: `kind: openai` with a base_url."""


def kind_of(provider: ProviderConfig) -> ProviderKind:
    if provider.kind == "openai" and has_custom_address(provider):
        return COMPATIBLE
    return KINDS[provider.kind]


def has_custom_address(provider: ProviderConfig) -> bool:
    """Return whether any endpoint is not at its kind's default address."""
    default = None, KINDS[provider.kind].base_url
    if not provider.endpoints:
        return provider.base_url not in default
    return any(entry.base_url not in default for entry in provider.per_endpoint())


def structured_outputs(provider: ProviderConfig) -> Literal["native", "prompt"]:
    """Return how a provider enforces a JSON Schema on replies."""
    return provider.structured_outputs or kind_of(provider).structured_outputs


def reads_pdf(provider: ProviderConfig) -> bool:
    """Return whether a provider's models read PDFs, rather than their text."""
    return (provider.files or kind_of(provider).files) == "native"


def takes_prefill(provider: ProviderConfig) -> bool:
    """Return whether a provider's models may continue an answer that was begun."""
    return kind_of(provider).takes_prefill


def find_unsupported_parameters(
    provider: ProviderConfig, names: Iterable[str]
) -> list[str]:
    """Return the names that the provider's API does not support, in their order."""
    unsupported = kind_of(provider).unsupported_parameters
    if unsupported is None:
        return []
    return [name for name in names if name in unsupported or name not in PARAMETERS]


def supported_parameters(
    name: str, provider: ProviderConfig, parameters: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the parameters without neutral values and hints that the API lacks.

    Raises `Invalid` for the first other one that it lacks.
    """
    unsupported = find_unsupported_parameters(provider, parameters)
    if not unsupported:
        return parameters
    for parameter in unsupported:
        value = parameters[parameter]
        if (
            value is not None
            and parameter not in HINTS
            and (parameter not in NEUTRAL_VALUES or value != NEUTRAL_VALUES[parameter])
        ):
            raise Invalid(
                f"provider '{name}' ({provider.kind}) does not support '{parameter}'",
                param=parameter,
                code="unsupported_parameter",
            )
    return {key: parameters[key] for key in parameters if key not in unsupported}


def find_dropped_hints(
    provider: ProviderConfig, parameters: Mapping[str, Any]
) -> list[str]:
    """Return the hints that are not sent to the provider.

    Leaves out `store`, which asks OpenAI for a copy and has no effect on the reply.
    """
    unsupported = find_unsupported_parameters(provider, parameters)
    return [name for name in unsupported if name in HINTS and name != "store"]


def provider_url(provider: ProviderConfig) -> str:
    """Return the URL of calls; raises `LocalModelDown`."""
    kind = kind_of(provider)
    address = provider.base_url or kind.base_url
    address = address or os.environ.get(LOCAL_MODEL_URL, "").rstrip("/")
    if not address:
        raise LocalModelDown
    return address + kind.wire.path
