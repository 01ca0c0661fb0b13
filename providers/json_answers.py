"""Questions to a model whose answer should be JSON: to a judge, to a safety check.

They are asked at a low temperature and with a JSON Schema, if the model accepts both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core import token_usage
from core.events import Usage
from core.messages import Message
from core.reply import Reply
from core.trace import Attempt
from providers import registry, whole_replies
from providers.config import ProviderConfig
from providers.errors import ContentFiltered, RequestRefused
from providers.model_request import ModelRequest

LOCAL_TOKENS = 400
"""Maximum answer tokens of the local model, because it delays agents' replies."""

OPTIONAL_PARAMETERS = frozenset({"response_format", "temperature"})
"""Parameters that improve answers but are not required."""

_unsupported_parameters: dict[tuple[str, str | None, str], frozenset[str]] = {}
"""Optional parameters that models have refused in this process, by provider, its
address and model.
"""


@dataclass(frozen=True, slots=True)
class AnsweringModel:
    """The model that is asked, and the form of its answer."""

    provider_name: str
    provider: ProviderConfig
    model: str
    response_format: Mapping[str, Any]
    """In OpenAI's format; sent to providers that enforce it."""
    max_tokens: int | None = None
    user: str = ""
    """An opaque id of the end user, for the provider."""
    attempts: list[Attempt] = field(default_factory=list)
    """Each request to the provider is appended here."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that the provider may accept."""
        parameters: dict[str, Any] = {}
        if not registry.find_unsupported_parameters(self.provider, ["temperature"]):
            parameters["temperature"] = 0
        if registry.structured_outputs(self.provider) == "native":
            parameters["response_format"] = self.response_format
        if self.max_tokens is not None:
            parameters["max_tokens"] = self.max_tokens
        elif self.provider.kind == "local":
            parameters["max_tokens"] = LOCAL_TOKENS
        return parameters

    def count_usage(self, messages: Sequence[Message], reply: Reply) -> Usage:
        """Return the usage of an answer; estimated if the provider reported none."""
        return token_usage.count_usage(
            messages, reply, response_format=self.parameters.get("response_format")
        )


async def ask(model: AnsweringModel, messages: Sequence[Message]) -> Reply:
    """Return the model's reply, with as many optional parameters as it accepts.

    Reasoning models accept no temperature, and many servers no schema. Parameters that
    a model refused are not sent again. Raises the errors of `providers.errors`.
    """
    key = (model.provider_name, model.provider.base_url, model.model)
    refused = _unsupported_parameters.get(key, frozenset())
    wanted = model.parameters
    while True:
        parameters = {
            name: value for name, value in wanted.items() if name not in refused
        }
        try:
            reply = await _call_model(model, messages, parameters)
        except ContentFiltered:
            raise
        except RequestRefused as exc:
            newly_refused = _rejected_parameters(exc, parameters)
            if not newly_refused:
                raise
            refused |= newly_refused
        else:
            if refused:
                _unsupported_parameters[key] = refused
            return reply


def _rejected_parameters(
    error: RequestRefused, parameters: Mapping[str, Any]
) -> frozenset[str]:
    """Return the optional parameters that a model may have refused."""
    optional = OPTIONAL_PARAMETERS & parameters.keys()
    name = (error.param or "").partition(".")[0]
    return frozenset({name} if name in optional else optional)


async def _call_model(
    model: AnsweringModel, messages: Sequence[Message], parameters: Mapping[str, Any]
) -> Reply:
    request = ModelRequest(
        model.model, messages, parameters=parameters, user=model.user
    )
    return await whole_replies.fetch(
        model.provider_name, model.provider, request, model.attempts
    )
