"""Moderation of texts and images by providers with OpenAI's `/moderations`."""

from typing import Any

from config.sections import Config
from core.errors import NotFound
from core.text.sanitization import escape_and_truncate
from providers import client, registry
from providers.config import PROVIDERS
from providers.embeddings import provider_access
from providers.embeddings.config import EmbedderConfig
from providers.errors import ModelUnknown
from providers.resilience import error_mapping
from providers.resilience.error_mapping import ProviderSource

DEFAULT_MODEL = "omni-moderation-latest"


class ModerationUnknown(NotFound):
    """This server has no moderation model."""

    code = "model_not_found"
    detail = "add an entry of kind openai with an api_key under providers:"


async def moderate(config: Config, name: str, given: Any) -> dict[str, Any]:
    """Return the provider's answer about an input; raises `ModerationUnknown`.

    `name` is a model of the first entry with moderation, or `PROVIDER/MODEL`.
    """
    source = _find_source(config, name)
    body = {"model": source.model, "input": given}
    try:
        return await client.post_json(source, "/moderations", body, _parse_response)
    except ModelUnknown as exc:
        raise _unknown_model(name, str(exc)) from exc


def _find_source(config: Config, name: str) -> ProviderSource:
    entries = {
        each: entry
        for each, entry in config.get(PROVIDERS).items()
        if entry.kind == "openai" and entry.per_endpoint()[0].api_key is not None
    }
    if not entries:
        raise ModerationUnknown(param="model")
    provider, slash, model = name.partition("/")
    if not slash:
        # OpenAI itself first: other servers seldom have moderation.
        provider = min(
            entries, key=lambda each: registry.has_custom_address(entries[each])
        )
        model = name
    if provider not in entries or not model:
        raise _unknown_model(name, "no entry of kind openai with an api_key has it")
    entry = provider_access.resolve_provider(
        EmbedderConfig(provider=provider), entries[provider].per_endpoint()[0]
    )
    return ProviderSource(provider, entry, model)


def _unknown_model(name: str, detail: str) -> ModerationUnknown:
    return ModerationUnknown(
        f"The moderation model '{escape_and_truncate(name)}' does not exist.",
        param="model",
        detail=detail,
    )


def _parse_response(payload: Any, source: ProviderSource) -> dict[str, Any]:
    if payload.get("error"):
        raise error_mapping.from_error_object(source, payload)
    if not isinstance(payload["results"], list):
        raise error_mapping.malformed_reply(source, "has no list of results")
    return {name: payload.get(name) for name in ("id", "model", "results")}
