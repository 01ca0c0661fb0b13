"""Choose a model by name, or the cheapest configured one."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from providers import registry
from providers.config import KindName, ProviderConfig


class ModelChoice(BaseModel):
    """A model and where it runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: str = Field(description="A name under `providers:`.")
    model: str = Field(min_length=1, description="The provider's name of the model.")


CHEAP_MODELS: dict[KindName, str] = {
    "anthropic": "claude-haiku-4-5-20251001",
    "openai": "gpt-4o-mini",
    "gemini": "gemini-2.5-flash-lite",
    "groq": "llama-3.1-8b-instant",
    "deepseek": "deepseek-chat",
    "cohere": "command-r7b-12-2024",
    "local": "smollm2-135m",
}
"""A small model of each kind, in order of preference."""


def cheapest_model(providers: Mapping[str, ProviderConfig]) -> ModelChoice | None:
    """Return a small model of the first kind that is configured, or None.

    Servers at custom addresses are skipped: their models are unknown. Source:
    "Auto-derivation" of the reference, which ends with cohere; a model on this machine
    comes last.
    """
    for kind, model in CHEAP_MODELS.items():
        for name, provider in providers.items():
            if provider.kind == kind and not registry.has_custom_address(provider):
                return ModelChoice(provider=name, model=model)
    return None
