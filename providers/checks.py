"""System checks of prices.

| id | warning |
|---|---|
| coulisse.W111 | a configured model has no known price |
"""

from typing import Any

from django.core import checks

from config.loading import checked_file
from providers.pricing import price_table

UNKNOWN_PRICE = "coulisse.W111"


@checks.register
def check_prices(*, databases: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Warn of models without a known price.

    Skipped during migrations, which also run checks.
    """
    config = None if databases else checked_file.load()
    if config is None:
        return []
    return [
        checks.Warning(
            f"no price is known for {name}: its calls are refused where a budget "
            "limits money; set its price under prices:",
            id=UNKNOWN_PRICE,
        )
        for name in price_table.unpriced_models(price_table.list_models(config))
    ]
