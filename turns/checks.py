"""What `manage.py check` says of memory, of prices, of judges and of bandits."""

from typing import Any

from django.core import checks

from config.loading import checked_file
from memory import memory_settings
from memory.maintenance import alerts
from turns.evaluation import experiment_checks, judge_checks
from turns.reports import price_table

FEEBLE = "coulisse.W654"
PARKED = "coulisse.W716"
UNPRICED = "coulisse.W111"


def check_memory(*, databases: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Warn of what is stored and does not fit what is configured.

    Not while tables are being made, which asks for checks too.
    """
    config = None if databases else checked_file.load()
    users = None if config is None else memory_settings.of_users(config)
    found = alerts.concerns(users) if users is not None else ()
    return [checks.Warning(message, id=kind) for kind, message in found]


def check_prices(*, databases: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Warn of models whose price nobody knows."""
    config = None if databases else checked_file.load()
    if config is None:
        return []
    return [
        checks.Warning(
            f"nobody knows what {name} costs, so it is refused where money is limited; "
            "give its price under prices:",
            id=UNPRICED,
        )
        for name in price_table.unknown(price_table.of(config))
    ]


def check_judges(*, databases: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Warn of judges that answer in shape and judge nothing."""
    config = None if databases else checked_file.load()
    if config is None:
        return []
    return [
        checks.Warning(
            f"judge '{judge.name}': '{judge.model}' is too small to judge, so its "
            "scores mean nothing; give it a larger model",
            id=FEEBLE,
        )
        for judge in judge_checks.feeble(config)
    ]


def check_bandits(*, databases: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Warn of bandits that go by the scores of a judge who gives none."""
    config = None if databases else checked_file.load()
    if config is None:
        return []
    return [
        checks.Warning(
            f"experiment '{experiment.name}' goes by '{experiment.metric}', and judge "
            f"'{judge}' scores nothing: its sampling_rate is 0, so no variant ever "
            "leads; raise it",
            id=PARKED,
        )
        for experiment, judge in experiment_checks.parked(config)
    ]
