"""The parameters of a request that OpenAI's API does not have."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson

from agents import fallback_chain
from agents.config import AgentConfig
from agents.fallback_chain import Model
from config.validation.suggestions import did_you_mean
from core.errors import Invalid
from core.text.sanitization import escape_and_truncate
from providers import registry
from providers.registry import EXTRA_PARAMETERS, PARAMETERS

DROPPED_HEADER = "X-Coulisse-Dropped-Parameters"
"""The header with the parameters that the agent's own model does not receive."""

MAX_EXTRAS = 32
MAX_EXTRA_BYTES = 64 * 1024
MAX_NAME_LENGTH = 64


@dataclass(frozen=True, slots=True)
class ExtraParameters:
    """What becomes of a request's parameters."""

    passed: Mapping[str, Any] = field(default_factory=dict)
    """Those that models receive, as far as their providers have them."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """`DROPPED_HEADER`, if any is dropped."""


NO_PARAMETERS = ExtraParameters()


def select(
    agent: AgentConfig,
    model: Model,
    parameters: Mapping[str, Any],
    extras: Mapping[str, Any],
) -> ExtraParameters:
    """Return the extra parameters to pass, by the agent's `unknown_parameters`.

    `model` is the agent's own. Raises `Invalid` for a name that is refused, and for too
    many or too large values.
    """
    dropped = registry.find_dropped_hints(model.provider, parameters)
    if extras:
        _check_size(extras)
        _check_names(agent, extras)
    passed = {} if agent.unknown_parameters == "drop" else extras
    accepted = fallback_chain.accepted_extras(model, agent, passed)
    dropped += [name for name in extras if name not in accepted]
    header = ", ".join(quote(name) for name in sorted(dropped))
    return ExtraParameters(passed, {DROPPED_HEADER: header} if dropped else {})


def _check_size(extras: Mapping[str, Any]) -> None:
    if len(extras) > MAX_EXTRAS:
        raise Invalid(
            f"the request has {len(extras)} parameters that OpenAI's API does not "
            f"have; the maximum is {MAX_EXTRAS}: leave some out",
            code="unknown_parameter",
        )
    if len(orjson.dumps(extras)) > MAX_EXTRA_BYTES:
        raise Invalid(
            "the parameters that OpenAI's API does not have exceed "
            f"{MAX_EXTRA_BYTES} bytes; shorten or leave out some of these: "
            f"{', '.join(map(escape_and_truncate, extras))}",
            code="unknown_parameter",
        )


def _check_names(agent: AgentConfig, extras: Mapping[str, Any]) -> None:
    """Raise `Invalid` for the first name that the agent refuses."""
    mode = agent.unknown_parameters
    known = EXTRA_PARAMETERS if mode is None else ()
    for name in extras:
        if len(name) > MAX_NAME_LENGTH or (
            mode in (None, "refuse") and name not in known
        ):
            quoted = escape_and_truncate(name)
            raise Invalid(
                f"Unrecognized request argument supplied: {quoted}"
                f"{did_you_mean(name, PARAMETERS | EXTRA_PARAMETERS)}",
                param=quoted,
                code="unknown_parameter",
            )
