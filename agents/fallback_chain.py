"""The models that may answer for an agent: its own, and those it falls back to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.config import AGENTS, AgentConfig
from config.sections import Config
from core.errors import CoulisseError, Invalid
from providers import registry
from providers.config import PROVIDERS, ProviderConfig
from providers.default_model import ModelChoice
from providers.errors import ContentFiltered, LocalModelDown, ProviderFailed

ALIASES = ({"max_tokens", "max_completion_tokens"},)
"""Names of one thing: a request that sets either puts aside the agent's other."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model, where it runs and what it is asked with."""

    provider_name: str
    """The provider's key under `providers:`."""
    provider: ProviderConfig
    name: str
    """The provider's own."""
    defaults: Mapping[str, Any]
    """Parameters for what a request leaves out, under OpenAI's names."""
    extra_body: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.provider_name}/{self.name}"

    @property
    def has_native_format(self) -> bool:
        """Whether its provider is sent a `response_format` and holds a reply to it."""
        return registry.structured_outputs(self.provider) == "native"

    def parameters(
        self,
        requested: Mapping[str, Any],
        response_format: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the parameters of a call: the request's before its own.

        A format goes to those who hold a reply to it themselves.
        """
        given = merge_parameters(self.defaults, requested)
        if response_format and self.has_native_format:
            given["response_format"] = response_format
        return given


def merge_parameters(
    defaults: Mapping[str, Any], requested: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an agent's parameters with the request's in their place."""
    given = {**defaults, **requested}
    for names in ALIASES:
        if names & requested.keys():
            for name in names - requested.keys():
                given.pop(name, None)
    return given


def models_for(config: Config, agent: AgentConfig) -> tuple[Model, ...]:
    """Return an agent's models in the order they are tried, its own first."""
    providers = config.get(PROVIDERS)
    own = (primary_model(agent, providers[agent.provider]),)
    if not agent.fallbacks:
        return own
    return own + tuple(
        _resolve_fallback(config, agent, named) for named in agent.fallbacks
    )


def primary_model(agent: AgentConfig, provider: ProviderConfig) -> Model:
    """Return the model an agent names as its own."""
    return Model(
        agent.provider, provider, agent.model, agent.parameters, agent.extra_body
    )


def _resolve_fallback(
    config: Config, agent: AgentConfig, named: str | ModelChoice
) -> Model:
    """Return a fallback: as another agent has it, or with this agent's parameters.

    `extra_body` is in the words of one provider, so it goes to no other.
    """
    providers = config.get(PROVIDERS)
    if isinstance(named, str):
        other = config.get(AGENTS)[named]
        return primary_model(other, providers[other.provider])
    return Model(
        named.provider,
        providers[named.provider],
        named.model,
        agent.parameters,
        agent.extra_body if named.provider == agent.provider else {},
    )


class FallbackChain:
    """Decides which model answers in one turn.

    The one that answered last, and where it fails the next: each once in a round, the
    agent's own after the last.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = models
        self._at = 0
        self._failed: list[tuple[Model, Exception]] = []
        """In this round."""

    @property
    def model(self) -> Model:
        """The one whose turn it is."""
        return self._models[self._at]

    def next_round(self) -> None:
        """Begin another reply."""
        self._failed.clear()

    def advance(self, error: Exception) -> bool:
        """Put the next model in the place of one that failed, and say whether there is
        any.

        The client's fault is no other model's to mend, unless it is one only for a
        fallback: a parameter it does not take, a prompt too long for it. What a filter
        refused is offered to nobody else.
        """
        if not self._allows_fallback(error):
            return False
        self._failed.append((self.model, error))
        if len(self._failed) == len(self._models):
            return False
        self._at = (self._at + 1) % len(self._models)
        return True

    def _allows_fallback(self, error: Exception) -> bool:
        if isinstance(error, ContentFiltered):
            return False
        if isinstance(error, Invalid):
            return bool(self._at or self._failed)
        return isinstance(error, (ProviderFailed, LocalModelDown))

    def final_error(self, last: Exception) -> Exception:
        """Return what to tell of a round in which no model answered.

        The error of the model that was asked first, with what became of the others;
        `last` itself where that one may not be routed around.
        """
        if len(self._failed) < 2 or last is not self._failed[-1][1]:
            return last
        # A fallback's refusal of the request would be news to nobody.
        faults = [each for each in self._failed if not isinstance(each[1], Invalid)]
        told = (faults or self._failed)[0]
        others = [each for each in self._failed if each is not told]
        return _with_other_errors(told[1], others)


def _with_other_errors(
    error: Exception, others: Sequence[tuple[Model, Exception]]
) -> Exception:
    """Add what became of the other models to an error, each part where it belongs."""
    if not isinstance(error, CoulisseError):
        return error
    said, details = [], [error.detail]
    for model, other in others:
        if isinstance(other, CoulisseError):
            said.append(f"{model}: {other.message}")
            details.append(other.detail and f"{model}: {other.detail}")
    what = "; ".join(said)
    error.message = f"{error.message}; no other model answered either: {what}"
    error.detail = "; ".join(filter(None, details))
    return error
