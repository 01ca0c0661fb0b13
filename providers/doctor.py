"""The checks of providers by `coulisse doctor`."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from typing import Any

from django.conf import settings
from django.core import checks
from django.utils.module_loading import import_string

from config.sections import Config
from core.errors import CoulisseError
from core.messages import Message
from providers import client, registry, sync_bridge
from providers.config import PROVIDERS, ProviderConfig
from providers.errors import RequestRefused
from providers.model_request import ModelRequest
from providers.pricing.price_table import ModelUse

ANSWER_SECONDS = 30.0
MAX_MODELS = 50
Model = tuple[str, str]
"""The provider and the name of a model."""


def check_providers(config: Config | None) -> Iterator[checks.CheckMessage]:
    """Say which providers have keys; the YAML requires those that are needed."""
    if config is None:
        return
    providers = config.get(PROVIDERS)
    for name, provider in providers.items():
        yield checks.Info(f"{name}: {_describe_key(provider)}")


def _describe_key(provider: ProviderConfig) -> str:
    if provider.endpoints:
        keys = sum(1 for each in provider.endpoints if each.api_key or provider.api_key)
        return f"{keys} of {len(provider.endpoints)} endpoints have a key"
    if provider.api_key is not None:
        return "has a key"
    where = provider.base_url or "a model on this machine"
    return f"has no key, and needs none for {where}"


def ask_models(config: Config | None) -> Iterator[checks.CheckMessage]:
    """Ask each model in use for one token, all at once; not embedding models."""
    if config is None:
        return
    used_by = _models_in_use(config)
    if len(used_by) > MAX_MODELS:
        yield checks.Warning(f"only {MAX_MODELS} of {len(used_by)} models are asked")
    futures = {
        model: sync_bridge.start(_ask(config, *model))
        for model in [*used_by][:MAX_MODELS]
    }
    for model, future in futures.items():
        yield _result(model, used_by[model], future)


def _models_in_use(config: Config) -> dict[Model, list[str]]:
    """Return the agents and others that use each model."""
    uses: Callable[[Config], Iterable[ModelUse]]
    uses = import_string(settings.COULISSE_MODEL_USES)
    used_by: dict[Model, list[str]] = {}
    for use in uses(config):
        if use.embedder is None:
            used_by.setdefault((use.provider, use.model), []).append(use.user)
    return used_by


def _result(
    model: Model, used_by: list[str], future: Future[None]
) -> checks.CheckMessage:
    provider, name = model
    place = f"{provider}/{name}, used by {', '.join(used_by[:5])}"
    try:
        future.result(ANSWER_SECONDS)
    except TimeoutError:
        future.cancel()
        return checks.Error(
            f"{place}: no answer within {ANSWER_SECONDS:.0f} s",
            hint="check the provider's status page and the network of this machine",
        )
    except CoulisseError as exc:
        return checks.Error(
            f"{place}: {exc}",
            hint=f"check the key and the base_url under providers.{provider}, and the "
            "name of the model",
        )
    return checks.Info(f"{provider}/{name} answers")


async def _ask(config: Config, name: str, model: str) -> None:
    provider = config.get(PROVIDERS)[name]
    try:
        await _request(name, provider, model, {"max_tokens": 1})
    except RequestRefused:
        # Reasoning models need more tokens than one.
        await _request(name, provider, model, {})


async def _request(
    name: str, provider: ProviderConfig, model: str, parameters: dict[str, Any]
) -> None:
    if registry.find_unsupported_parameters(provider, parameters):
        parameters = {}
    hi = [Message("user", "Hi")]
    request = ModelRequest(model, hi, parameters=parameters, stream=False)
    once = provider.model_copy(update={"retries": 0})
    async with aclosing(client.run(name, once, request)) as events:
        async for _ in events:
            pass
