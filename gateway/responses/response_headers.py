"""The headers that tell who answers."""

from urllib.parse import quote

PROVIDER = "X-Coulisse-Provider"
ATTEMPTS = "X-Coulisse-Attempts"
COST = "X-Coulisse-Cost-Usd"


def headers(provider: str, attempts: int) -> dict[str, str]:
    """Return who answers or has failed, and after how many requests to providers.

    Of a stream, when it begins.
    """
    # A name in the YAML may be in any script; a header may not.
    return {PROVIDER: quote(provider), ATTEMPTS: str(attempts)}
