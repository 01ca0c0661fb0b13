"""Keys for OpenAI's Realtime API, with which browsers speak to the provider themselves.

Source: OpenAI's API reference, "Create client secret".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import CoulisseError, Invalid
from core.trace import Attempt
from providers import client, registry
from providers.config import ProviderConfig
from providers.resilience import error_mapping
from providers.resilience.error_mapping import ProviderSource

PATH = "/realtime/client_secrets"
CALLS_PATH = "/realtime/calls"
"""Where a browser sends its offer of a WebRTC connection."""


class RealtimeUnavailable(Invalid):
    """The agent has no model for conversations by voice."""

    code = "realtime_unavailable"
    detail = "set realtime.model of the agent, at a provider of kind openai"


@dataclass(frozen=True, slots=True)
class ClientSecret:
    """A key that is valid for a short time, and the session it opens."""

    value: str
    expires_at: int
    """Seconds since 1970."""
    session: Mapping[str, Any]
    """As the provider returned it."""
    calls_url: str
    """The address that accepts the key."""


async def create_client_secret(
    name: str,
    provider: ProviderConfig,
    session: Mapping[str, Any],
    *,
    lifetime_seconds: int,
) -> ClientSecret:
    """Create a key at the first endpoint of a provider of kind `openai`.

    Raises the errors in `providers.errors`, with the provider and the attempts.
    """
    entry = provider.per_endpoint()[0]
    base_url = entry.base_url or registry.KINDS[entry.kind].base_url
    entry = entry.model_copy(update={"base_url": base_url})
    source = ProviderSource(name, entry, session["model"])
    body = {
        "expires_after": {"anchor": "created_at", "seconds": lifetime_seconds},
        "session": session,
    }
    attempts: list[Attempt] = []
    try:
        payload = await client.post_json(
            source, PATH, body, _parse_response, attempts=attempts
        )
    except CoulisseError as exc:
        exc.provider, exc.attempts = name, len(attempts)
        raise
    return ClientSecret(
        payload["value"],
        payload["expires_at"],
        payload["session"],
        f"{base_url}{CALLS_PATH}",
    )


def _parse_response(payload: Any, source: ProviderSource) -> Mapping[str, Any]:
    if payload.get("error"):
        raise error_mapping.from_error_object(source, payload)
    types = {"value": str, "expires_at": int, "session": dict}
    for key, expected in types.items():
        if not isinstance(payload[key], expected):
            raise error_mapping.malformed_reply(source, f"has no valid '{key}'")
    return {key: payload[key] for key in types}
