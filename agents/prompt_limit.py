"""The maximum length of an agent's prompts."""

from agents import fallback_chain
from agents.config import AgentConfig
from agents.fallback_chain import Model
from config.sections import Config

MAX_DEFAULT_TOKENS = 100_000
"""Each turn of a long thread reads, sends and pays for its history. With 1,900 short
messages this many tokens take 8 ms of CPU more than 16,000."""
UNKNOWN_WINDOW_TOKENS = 16_000
"""For models whose window is unknown: most have at least this much."""
REPLY_TOKENS = 8_192
"""The longest reply that is expected, unless the agent sets `max_tokens`."""
MIN_TOKENS = 256


def context_tokens(config: Config, agent: AgentConfig) -> int:
    """Return the maximum length of an agent's prompts, in tokens.

    Unless the agent sets it, a prompt fits all windows of its models that are known.
    """
    if agent.context_tokens is not None:
        return agent.context_tokens
    own, *fallbacks = fallback_chain.models_for(config, agent)
    limit = _fitting_tokens(own, agent) or UNKNOWN_WINDOW_TOKENS
    for model in fallbacks:
        limit = min(limit, _fitting_tokens(model, agent) or limit)
    return min(limit, MAX_DEFAULT_TOKENS)


def _fitting_tokens(model: Model, agent: AgentConfig) -> int | None:
    window = model.context_window
    if window is None:
        return None
    reply = min(agent.max_tokens or min(REPLY_TOKENS, window // 4), window // 2)
    # Tokens are estimated, so a window is not filled.
    return max((window - reply) * 3 // 4, MIN_TOKENS)
