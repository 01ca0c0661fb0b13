"""The YAML's `experiments:` list.

| id | what is wrong |
|---|---|
| coulisse.E701 | a variant is listed twice |
| coulisse.E702 | a field belongs to another strategy |
| coulisse.E703 | a shadow experiment's `primary` is missing or not a variant |
| coulisse.E704 | a bandit has no `metric` |
| coulisse.E705 | a metric is not `judge.criterion` |

`experiments/checks.py` has the checks that need agents and judges.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from config.sections import Config, Location, Problem, Section
from config.validation.named_lists import by_name
from config.validation.suggestions import did_you_mean

Strategy = Literal["split", "shadow", "bandit"]
Share = Annotated[float, Field(ge=0, le=1)]

WEEK_SECONDS = 7 * 24 * 3600

STRATEGY_OF_FIELD: dict[str, Strategy] = {
    "bandit_window_seconds": "bandit",
    "epsilon": "bandit",
    "metric": "bandit",
    "min_samples": "bandit",
    "primary": "shadow",
    "sampling_rate": "shadow",
}
"""Fields that apply to one strategy only."""


class Variant(BaseModel):
    """An agent that may answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent: str = Field(description="A name under `agents:`.")
    weight: float = Field(
        default=1.0,
        gt=0,
        le=1e9,
        description="Its share of the users, relative to the other weights.",
    )


class StopRule(BaseModel):
    """When an experiment has a winner."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    confidence: float = Field(
        default=0.95,
        gt=0.5,
        lt=1,
        description="The probability of being the best that a winner needs.",
    )
    min_samples: int = Field(
        default=100,
        ge=2,
        description="Scores that every variant needs before one wins.",
    )
    metric: str | None = Field(
        default=None,
        description="The `judge.criterion` that decides. Default: a bandit's "
        "`metric`, otherwise the only criterion that scores all variants.",
    )


class ExperimentConfig(BaseModel):
    """Several agents under one name. One of them answers each request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        min_length=1,
        max_length=255,
        description="The `model` that clients send. Must differ from agents' names.",
    )
    purpose: str | None = Field(
        default=None,
        description="One line that describes to other agents when to call it.",
    )
    strategy: Strategy = Field(
        description="`split` gives each variant its share of users; `shadow` lets one "
        "variant answer and runs the others in the background; `bandit` prefers the "
        "variant with the best scores.",
    )
    variants: tuple[Variant, ...] = Field(
        min_length=1, description="The agents to choose from."
    )
    sticky_by_user: bool = Field(
        default=True,
        description="Whether a user keeps a variant; `false` chooses a random one for "
        "each request.",
    )
    primary: str | None = Field(
        default=None,
        description="`shadow`: the variant that answers. Required for `shadow`.",
    )
    sampling_rate: Share = Field(
        default=1.0,
        description="`shadow`: the share of turns that the other variants also run.",
    )
    metric: str | None = Field(
        default=None,
        description="`bandit`: the `judge.criterion` whose mean decides. Required for "
        "`bandit`.",
    )
    epsilon: Share = Field(
        default=0.1,
        description="`bandit`: the share of users who get a random variant.",
    )
    min_samples: int = Field(
        default=30,
        ge=0,
        description="`bandit`: recent scores that each variant needs before one leads.",
    )
    bandit_window_seconds: int = Field(
        default=WEEK_SECONDS,
        ge=1,
        le=10 * 365 * 24 * 3600,
        description="`bandit`: the maximum age of scores that count, in seconds.",
    )
    stop_when: StopRule | None = Field(
        default=None,
        description="When to report a winner. Default: never.",
    )

    @property
    def agents(self) -> tuple[str, ...]:
        """The variants' names, in the order of the file."""
        return tuple(variant.agent for variant in self.variants)

    @property
    def judge(self) -> str:
        """The judge of a bandit's metric; "" without one."""
        return (split_metric(self.metric or "") or ("", ""))[0]


def split_metric(metric: str) -> tuple[str, str] | None:
    """Return a metric's judge and criterion; None if it is not `judge.criterion`."""
    # Judges' names may contain dots; criteria's may not.
    judge, _, criterion = metric.rpartition(".")
    return (judge, criterion) if judge and criterion else None


def check_experiments(
    experiments: dict[str, ExperimentConfig], _: Config
) -> Iterable[Problem]:
    """Report experiments that contradict themselves."""
    for index, experiment in enumerate(experiments.values()):
        location = ("experiments", index)
        yield from _check_variants(location, experiment)
        yield from _check_fields(location, experiment)
        yield from _check_primary(location, experiment)
        yield from _check_metrics(location, experiment)


def _check_variants(
    location: Location, experiment: ExperimentConfig
) -> Iterable[Problem]:
    for position, name in enumerate(experiment.agents):
        if name in experiment.agents[:position]:
            yield Problem(
                (*location, "variants", position, "agent"),
                f"experiment '{experiment.name}' lists the variant '{name}' twice; "
                "remove one, or give it the weight of both",
                "coulisse.E701",
            )


def _check_fields(
    location: Location, experiment: ExperimentConfig
) -> Iterable[Problem]:
    for name, strategy in STRATEGY_OF_FIELD.items():
        if name in experiment.model_fields_set and strategy != experiment.strategy:
            yield Problem(
                (*location, name),
                f"experiment '{experiment.name}' sets '{name}', which applies only to "
                f"strategy '{strategy}', but its strategy is '{experiment.strategy}'; "
                "remove it",
                "coulisse.E702",
            )


def _check_primary(
    location: Location, experiment: ExperimentConfig
) -> Iterable[Problem]:
    if experiment.strategy != "shadow":
        return
    agents = ", ".join(experiment.agents)
    if experiment.primary is None:
        yield Problem(
            location,
            f"experiment '{experiment.name}' has strategy 'shadow' but no primary; set "
            f"primary to one of its variants ({agents})",
            "coulisse.E703",
        )
    elif experiment.primary not in experiment.agents:
        yield Problem(
            (*location, "primary"),
            f"experiment '{experiment.name}' has the primary '{experiment.primary}', "
            f"which is not one of its variants ({agents})"
            f"{did_you_mean(experiment.primary, experiment.agents)}",
            "coulisse.E703",
        )


def _check_metrics(
    location: Location, experiment: ExperimentConfig
) -> Iterable[Problem]:
    if experiment.strategy == "bandit" and experiment.metric is None:
        yield Problem(
            location,
            f"experiment '{experiment.name}' has strategy 'bandit' but no metric; set "
            "metric to a judge and its criterion, such as quality.helpfulness",
            "coulisse.E704",
        )
    for path, metric in metric_locations(experiment).items():
        if split_metric(metric) is None:
            yield Problem(
                (*location, *path),
                f"experiment '{experiment.name}' has the metric '{metric}', which is "
                "not in the form judge.criterion, such as quality.helpfulness",
                "coulisse.E705",
            )


def metric_locations(experiment: ExperimentConfig) -> dict[Location, str]:
    """Return the metrics of an experiment, by their location."""
    locations: dict[Location, str] = {}
    if experiment.metric is not None:
        locations["metric",] = experiment.metric
    rule = experiment.stop_when
    if rule is not None and rule.metric is not None:
        locations["stop_when", "metric"] = rule.metric
    return locations


EXPERIMENTS: Section[dict[str, ExperimentConfig]] = Section(
    key="experiments",
    shape=Annotated[list[ExperimentConfig], AfterValidator(by_name("experiment"))],
    default=dict,
    noun="experiment",
    is_overridable=True,
    check=check_experiments,
    description="A/B tests over agents",
)
