"""The models that can answer for an agent: its own and its fallbacks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.config import AGENTS, AgentConfig, FallbackModel
from config.sections import Config
from core.errors import CoulisseError, Invalid
from providers import registry
from providers.config import PROVIDERS, ProviderConfig
from providers.errors import (
    ContentFiltered,
    LocalModelDown,
    ProviderFailed,
    TimedOut,
)
from providers.pricing import price_list

ALIASES = ({"max_tokens", "max_completion_tokens"},)
"""Aliases of one parameter: a request that sets either replaces the agent's other."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model with its provider and its default parameters."""

    provider_name: str
    """The provider's key under `providers:`."""
    provider: ProviderConfig
    name: str
    """The provider's own name of the model."""
    defaults: Mapping[str, Any]
    """Parameters that apply unless the request sets them, under OpenAI's names."""
    extra_body: Mapping[str, Any]
    configured_window: int | None = None

    @property
    def context_window(self) -> int | None:
        """The tokens of its context window; None if unknown."""
        if self.configured_window is not None:
            return self.configured_window
        return price_list.find_context_window(self.provider, self.name)

    def __str__(self) -> str:
        return f"{self.provider_name}/{self.name}"

    @property
    def has_native_format(self) -> bool:
        """Whether its provider accepts `response_format` and enforces it."""
        return registry.structured_outputs(self.provider) == "native"

    def parameters(
        self,
        requested: Mapping[str, Any],
        response_format: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the parameters of a call; the request's override the model's.

        `response_format` is only passed to providers that enforce it.
        """
        parameters = merge_parameters(self.defaults, requested)
        if response_format and self.has_native_format:
            parameters["response_format"] = response_format
        return parameters


def accepted_extras(
    model: Model, agent: AgentConfig, extras: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the client's extra parameters that a model of an agent receives."""
    if not extras or agent.unknown_parameters == "pass":
        return extras
    accepted = registry.kind_of(model.provider).extra_parameters
    return {name: extras[name] for name in extras if name in accepted}


def merge_parameters(
    defaults: Mapping[str, Any], requested: Mapping[str, Any]
) -> dict[str, Any]:
    """Return an agent's parameters, overridden by the request's."""
    parameters = {**defaults, **requested}
    for names in ALIASES:
        if names & requested.keys():
            for name in names - requested.keys():
                parameters.pop(name, None)
    return parameters


def models_for(config: Config, agent: AgentConfig) -> tuple[Model, ...]:
    """Return an agent's models in the order they are tried, its own first."""
    providers = config.get(PROVIDERS)
    models = [primary_model(agent, providers[agent.provider])]
    for fallback in agent.fallbacks:
        model = _resolve_fallback(config, agent, fallback)
        # An agent's name may stand for a model that is listed, too.
        if model not in models:
            models.append(model)
    return tuple(models)


def primary_model(agent: AgentConfig, provider: ProviderConfig) -> Model:
    """Return the agent's own model."""
    return Model(
        agent.provider,
        provider,
        agent.model,
        agent.parameters,
        agent.extra_body,
        agent.context_window,
    )


def _resolve_fallback(
    config: Config, agent: AgentConfig, fallback: str | FallbackModel
) -> Model:
    """Return a fallback: another agent's model, or a model with this agent's
    parameters.

    `extra_body` is specific to one provider, so other providers do not receive it.
    """
    providers = config.get(PROVIDERS)
    if isinstance(fallback, str):
        other = config.get(AGENTS)[fallback]
        return primary_model(other, providers[other.provider])
    return Model(
        fallback.provider,
        providers[fallback.provider],
        fallback.model,
        agent.parameters,
        agent.extra_body if fallback.provider == agent.provider else {},
        fallback.context_window,
    )


class FallbackChain:
    """Selects the model that answers in one turn.

    It starts with the model that answered last. After a failure it takes the next one,
    wrapping around after the last. Each model is tried once per round.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = models
        self._at = 0
        self._failed: list[tuple[Model, Exception]] = []
        """The failures of this round."""
        self._continued = 0
        """How often the current model was called again in this round."""

    @property
    def model(self) -> Model:
        return self._models[self._at]

    @property
    def has_next(self) -> bool:
        """Whether another model can be tried in this round."""
        return self.has_others(1)

    def has_others(self, running: int) -> bool:
        """Whether another model can be tried beside so many that run."""
        return len(self._failed) + running < len(self._models)

    @property
    def next_model(self) -> Model:
        """The next one that can be tried in this round; only if there is one."""
        return next(self._untried())

    def _untried(self) -> Iterator[Model]:
        """Yield the other models that have not failed in this round, in order."""
        failed = [model for model, _ in self._failed]
        order = [*self._models[self._at + 1 :], *self._models[: self._at]]
        return (model for model in order if model not in failed)

    def next_round(self) -> None:
        self._failed.clear()
        self._continued = 0

    def advance_after_break(self, error: Exception) -> bool:
        """Choose who continues a reply that broke off; return whether anyone does.

        Without fallbacks, the same model is called up to `retries` times. With them it
        is called once, and not at all if it stalled.
        """
        has_others = len(self._models) > 1
        repeats = self.model.provider.retries
        if has_others:
            repeats = 0 if isinstance(error, TimedOut) else min(repeats, 1)
        is_over = isinstance(error, TimedOut) and error.wait == "total"
        may_repeat = isinstance(error, ProviderFailed) and not is_over
        if may_repeat and self._continued < repeats:
            self._continued += 1
            return True
        return self.advance(error)

    def advance(self, error: Exception) -> bool:
        """Switch to the next model after a failure; return whether there is one.

        An invalid request is not retried, unless only a fallback rejects it: an
        unsupported parameter, or a prompt too long for it. Content that a filter
        refused is not sent to another model.
        """
        if not self._allows_fallback(error):
            return False
        self.skip(self.model, error)
        if len(self._failed) == len(self._models):
            return False
        self.switch_to(self.next_model)
        return True

    def skip(self, model: Model, error: Exception) -> None:
        """Record that a model has failed in this round."""
        self._failed.append((model, error))

    def switch_to(self, model: Model) -> None:
        """Let a model answer, and continue."""
        self._at = self._models.index(model)
        self._continued = 0

    def advance_to_larger(self, error: Exception) -> bool:
        """Switch to the next model whose context window is known to be larger; return
        whether there is one."""
        window = self.model.context_window
        for model in self._untried():
            larger = model.context_window
            if larger is not None and (window is None or larger > window):
                self.skip(self.model, error)
                self.switch_to(model)
                return True
        return False

    def _allows_fallback(self, error: Exception) -> bool:
        if isinstance(error, ContentFiltered):
            return False
        if isinstance(error, Invalid):
            return bool(self._at or self._failed or self._continued)
        return isinstance(error, (ProviderFailed, LocalModelDown))

    def final_error(self, last: Exception) -> Exception:
        """Return the error to raise for a round in which no model answered.

        This is the error of the model that was called first, extended by the errors of
        the others. It is `last` itself if that error allows no fallback.
        """
        if len(self._failed) < 2 or last is not self._failed[-1][1]:
            return last
        # The rejection by a fallback does not help the client.
        failures = [each for each in self._failed if not isinstance(each[1], Invalid)]
        first = (failures or self._failed)[0]
        others = [each for each in self._failed if each is not first]
        return _with_other_errors(first[1], others)


def _with_other_errors(
    error: Exception, others: Sequence[tuple[Model, Exception]]
) -> Exception:
    """Append the other models' messages and details to an error."""
    if not isinstance(error, CoulisseError):
        return error
    messages, details = [], [error.detail]
    for model, other in others:
        if isinstance(other, CoulisseError):
            messages.append(f"{model}: {other.message}")
            details.append(other.detail and f"{model}: {other.detail}")
    error.message = f"{error.message}; the fallbacks failed too: {'; '.join(messages)}"
    error.detail = "; ".join(filter(None, details))
    return error
