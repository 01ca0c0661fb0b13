"""Which of OpenAI's parameters a provider takes."""

from collections.abc import Iterable, Mapping
from typing import Any

from core.errors import Invalid
from providers import registry
from providers.config import ProviderConfig


def unsupported_parameters(provider: ProviderConfig, names: Iterable[str]) -> list[str]:
    """Return those of the names the provider's API does not take, in their order."""
    refuses = registry.kind_of(provider).unsupported_parameters
    if refuses is None:
        return []
    return [
        name for name in names if name in refuses or name not in registry.PARAMETERS
    ]


def check_parameters(
    name: str, provider: ProviderConfig, parameters: Mapping[str, Any]
) -> None:
    """Raise Invalid for the first parameter the provider cannot honour."""
    asked = [
        key
        for key, value in parameters.items()
        if value is not None and registry.DEFAULT_VALUES.get(key) is not value
    ]
    for parameter in unsupported_parameters(provider, asked):
        raise Invalid(
            f"provider '{name}' ({provider.kind}) does not support '{parameter}'",
            param=parameter,
            code="unsupported_parameter",
        )
