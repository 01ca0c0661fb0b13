"""Checks of agents and judges together, and the system checks of judges.

| id | what is wrong |
|---|---|
| coulisse.E652 | an agent's `judges` names a judge that does not exist |
| coulisse.E653 | an agent lists a judge twice |
| coulisse.W654 | a judge's model is too small to judge |
"""

from collections.abc import Iterable
from typing import Any

from django.core import checks

from agents.config import AGENTS
from config.loading import checked_file
from config.sections import Config, Problem
from config.validation.suggestions import did_you_mean
from judges.config import JUDGES, JudgeConfig
from providers.config import PROVIDERS

WEAK_JUDGE = "coulisse.W654"


def check_judges(config: Config) -> Iterable[Problem]:
    """Report agents whose judges do not exist."""
    judges = config.get(JUDGES)
    for index, agent in enumerate(config.get(AGENTS).values()):
        for position, name in enumerate(agent.judges):
            location = ("agents", index, "judges", position)
            if name not in judges:
                yield Problem(
                    location,
                    f"agent '{agent.name}' names judge '{name}', which is not under "
                    f"judges:{did_you_mean(name, judges)}",
                    "coulisse.E652",
                )
            elif name in agent.judges[:position]:
                yield Problem(
                    location,
                    f"agent '{agent.name}' lists judge '{name}' twice; remove one",
                    "coulisse.E653",
                )


def local_model_judges(config: Config) -> Iterable[JudgeConfig]:
    """Yield judges that use the local model, which is too small to judge."""
    providers = config.get(PROVIDERS)
    for judge in config.get(JUDGES).values():
        provider = providers[judge.provider]
        if provider.kind == "local" and not provider.base_url:
            yield judge


@checks.register
def check_small_models(*, databases: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """Warn of judges whose model is too small to judge."""
    config = None if databases else checked_file.load()
    if config is None:
        return []
    return [
        checks.Warning(
            f"judge '{judge.name}': '{judge.model}' is too small to judge, so its "
            "scores are meaningless; use a larger model",
            id=WEAK_JUDGE,
        )
        for judge in local_model_judges(config)
    ]
