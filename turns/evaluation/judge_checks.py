"""What agents and judges say together.

| id | what is wrong |
|---|---|
| coulisse.E652 | an agent's `judges` names a judge that does not exist |
| coulisse.E653 | an agent lists a judge twice |
"""

from collections.abc import Iterable

from agents.config import AGENTS
from config.sections import Config, Problem
from config.validation.suggestions import did_you_mean
from judges.config import JUDGES, JudgeConfig
from providers.config import PROVIDERS


def check_judges(config: Config) -> Iterable[Problem]:
    """Find agents whose judges do not exist."""
    judges = config.get(JUDGES)
    for index, agent in enumerate(config.get(AGENTS).values()):
        for position, name in enumerate(agent.judges):
            at = ("agents", index, "judges", position)
            if name not in judges:
                yield Problem(
                    at,
                    f"agent '{agent.name}' names judge '{name}', which is not under "
                    f"judges:{did_you_mean(name, judges)}",
                    "coulisse.E652",
                )
            elif name in agent.judges[:position]:
                yield Problem(
                    at,
                    f"agent '{agent.name}' lists judge '{name}' twice; remove one",
                    "coulisse.E653",
                )


def feeble(config: Config) -> Iterable[JudgeConfig]:
    """Find judges whose model is the one on this machine, which cannot judge."""
    providers = config.get(PROVIDERS)
    for judge in config.get(JUDGES).values():
        provider = providers[judge.provider]
        if provider.kind == "local" and not provider.base_url:
            yield judge
