"""The embedding models that requests may name.

`local` and `hash` are those of this machine. `PROVIDER/MODEL` is a model of an entry
under `providers:`, or of the provider in `embed_with`. Clients that know only OpenAI
send the bare names of its models, which are those of the first entry that is OpenAI
itself. The bare name of the model in `embed_with` is that model.
"""

from collections.abc import Iterator
from dataclasses import replace

from config.sections import Config
from config.validation.suggestions import did_you_mean
from core.errors import Invalid, NotFound
from core.text.sanitization import escape_and_truncate
from providers.embeddings import embedders, minilm, openai, provider_access, voyage
from providers.embeddings.base import Embedder
from providers.embeddings.config import EmbedderConfig

OFFLINE = ("local", "hash")

UNCUT = 1 << 62
"""No limit on the bytes of a text: its end is not cut."""


class EmbeddingModelUnknown(NotFound):
    """There is no such embedding model."""

    code = "model_not_found"


def find_embedder(
    config: Config,
    name: str,
    embed_with: EmbedderConfig | None,
    *,
    dimensions: int | None,
) -> Embedder:
    """Return the embedder that a request names; it embeds whole texts or none.

    `embed_with` is the one of the memory for users. Raises `EmbeddingModelUnknown`, and
    `Invalid` for a number of dimensions that the model does not have.
    """
    settings = _find_settings(config, name, embed_with)
    if settings is None:
        raise unknown_model(config, name, embed_with)
    if dimensions is not None:
        settings = settings.model_copy(update={"dims": dimensions})
    for field, problem in embedders.find_problems(config, settings):
        # Without `dims`, the API's vectors have the length that they have.
        if field == "dims" and dimensions is not None:
            raise Invalid(problem, param="dimensions")
        if field != "dims":
            raise unknown_model(config, name, embed_with)
    return _complete(embedders.build_embedder(config, settings), dimensions)


def unknown_model(
    config: Config, name: str, embed_with: EmbedderConfig | None
) -> EmbeddingModelUnknown:
    """Return the error about a name that no embedding model has."""
    return EmbeddingModelUnknown(
        f"The model '{escape_and_truncate(name)}' does not exist: no embedding model "
        f"has that name{did_you_mean(name, list_names(config, embed_with))}",
        param="model",
    )


def list_names(config: Config, embed_with: EmbedderConfig | None) -> Iterator[str]:
    """Yield the names of the known models; other servers may have more."""
    yield from (name for name in OFFLINE if _is_offline(config, name))
    for name in embedders.openai_entries(config):
        yield from (f"{name}/{model}" for model in openai.MODELS)
    if _openai_entry(config) is not None:
        yield from openai.MODELS
    if embed_with is None or embed_with.provider in OFFLINE:
        return
    if embed_with.provider == "voyage":
        yield from (f"voyage/{model}" for model in voyage.MODELS)
    if embed_with.model is not None:
        yield f"{embed_with.provider}/{embed_with.model}"
        yield embed_with.model


def _find_settings(
    config: Config, name: str, embed_with: EmbedderConfig | None
) -> EmbedderConfig | None:
    """Return the settings of the named model's embedder, or None."""
    if _is_offline(config, name):
        return EmbedderConfig(provider=name)
    if embed_with is not None and embed_with.model == name:
        return embed_with
    provider, slash, model = name.partition("/")
    if not slash and name in openai.MODELS:
        provider, model = _openai_entry(config) or "", name
    if not provider or not model:
        return None
    if embed_with is not None and embed_with.provider == provider:
        is_same = embed_with.model == model
        dims = embed_with.dims if is_same else None
        return embed_with.model_copy(update={"model": model, "dims": dims})
    if provider_access.find_provider(config, provider) is None:
        return None
    return EmbedderConfig(provider=provider, model=model)


def _is_offline(config: Config, name: str) -> bool:
    """Return whether a name is an embedder of this machine, and no entry's."""
    return (
        name in OFFLINE
        and provider_access.find_provider(config, name) is None
        and (name != "local" or minilm.is_available())
    )


def _openai_entry(config: Config) -> str | None:
    return next(embedders.openai_entries(config), None)


def _complete(embedder: Embedder, dimensions: int | None) -> Embedder:
    """Return the embedder for the texts of a request.

    Texts that are too long are refused by the API, and not cut as facts are. The API
    also decides about `dimensions` if its models are unknown.
    """
    api = embedder.api
    if api is None:
        return embedder
    limits = replace(api.limits, text_bytes=UNCUT, safe_text_bytes=UNCUT)
    extra = api.extra
    is_known = api.source.model in {*openai.MODELS, *voyage.MODELS}
    if dimensions is not None and not is_known:
        extra = {"dimensions": dimensions}
    return replace(embedder, api=replace(api, limits=limits, extra=extra))
