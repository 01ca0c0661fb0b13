"""The YAML's `experiments:` list.

| id | what is wrong |
|---|---|
| coulisse.E701 | a variant is listed twice |
| coulisse.E702 | a field belongs to another strategy |
| coulisse.E703 | a shadow experiment's `primary` is missing, or none of its variants |
| coulisse.E704 | a bandit has no `metric` |
| coulisse.E705 | a metric is not `judge.criterion` |
| coulisse.E711 and up | what agents and judges say:
`experiments/checks.py` |
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
        description="Its share of the users, beside the other variants' weights.",
    )


class StopRule(BaseModel):
    """When an experiment has shown which variant is best."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    confidence: float = Field(
        default=0.95,
        gt=0.5,
        lt=1,
        description="How likely it must be that a variant is the best of all.",
    )
    min_samples: int = Field(
        default=100,
        ge=2,
        description="How many scores every variant must have before any wins.",
    )
    metric: str | None = Field(
        default=None,
        description="The `judge.criterion` that decides. Unset: a bandit's own "
        "metric, else the only criterion all variants are scored by.",
    )


class ExperimentConfig(BaseModel):
    """Several agents under one name, one of which answers each request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        min_length=1,
        max_length=255,
        description="What clients send as `model`. No agent's name.",
    )
    purpose: str | None = Field(
        default=None,
        description="One line that tells other agents when to call it.",
    )
    strategy: Strategy = Field(
        description="`split` gives each variant its share of users; `shadow` has one "
        "answer and the others tried in the background; `bandit` prefers the one that "
        "scores best.",
    )
    variants: tuple[Variant, ...] = Field(
        min_length=1, description="The agents among which it chooses."
    )
    sticky_by_user: bool = Field(
        default=True,
        description="Whether a user always gets the same variant; `false` draws one "
        "for each request.",
    )
    primary: str | None = Field(
        default=None,
        description="`shadow`: the variant that answers. Required there.",
    )
    sampling_rate: Share = Field(
        default=1.0,
        description="`shadow`: the share of turns that are tried on the other "
        "variants, too.",
    )
    metric: str | None = Field(
        default=None,
        description="`bandit`: the `judge.criterion` whose mean decides. Required "
        "there.",
    )
    epsilon: Share = Field(
        default=0.1,
        description="`bandit`: the share of users who get any variant, whichever "
        "leads.",
    )
    min_samples: int = Field(
        default=30,
        ge=0,
        description="`bandit`: recent scores a variant must have before any leads.",
    )
    bandit_window_seconds: int = Field(
        default=WEEK_SECONDS,
        ge=1,
        le=10 * 365 * 24 * 3600,
        description="`bandit`: how old the scores may be that count, in seconds.",
    )
    stop_when: StopRule | None = Field(
        default=None,
        description="When to report a winner. Unset: never.",
    )

    @property
    def agents(self) -> tuple[str, ...]:
        """The variants' names, in the order of the file."""
        return tuple(variant.agent for variant in self.variants)


def split_metric(metric: str) -> tuple[str, str] | None:
    """Return a metric's judge and criterion; None if it is not `judge.criterion`."""
    # Judges' names may contain dots; criteria's may not.
    judge, _, criterion = metric.rpartition(".")
    return (judge, criterion) if judge and criterion else None


def check_experiments(
    found: dict[str, ExperimentConfig], _: Config
) -> Iterable[Problem]:
    """Report experiments that contradict themselves."""
    for index, experiment in enumerate(found.values()):
        at = ("experiments", index)
        yield from _check_variants(at, experiment)
        yield from _check_fields(at, experiment)
        yield from _check_primary(at, experiment)
        yield from _check_metrics(at, experiment)


def _check_variants(at: Location, experiment: ExperimentConfig) -> Iterable[Problem]:
    for place, name in enumerate(experiment.agents):
        if name in experiment.agents[:place]:
            yield Problem(
                (*at, "variants", place, "agent"),
                f"experiment '{experiment.name}' lists the variant '{name}' twice; "
                "remove one, or give it the weight of both",
                "coulisse.E701",
            )


def _check_fields(at: Location, experiment: ExperimentConfig) -> Iterable[Problem]:
    for name, strategy in STRATEGY_OF_FIELD.items():
        if name in experiment.model_fields_set and strategy != experiment.strategy:
            yield Problem(
                (*at, name),
                f"experiment '{experiment.name}' sets '{name}', which is for strategy "
                f"'{strategy}' alone, and its strategy is '{experiment.strategy}'; "
                "remove it",
                "coulisse.E702",
            )


def _check_primary(at: Location, experiment: ExperimentConfig) -> Iterable[Problem]:
    if experiment.strategy != "shadow":
        return
    agents = ", ".join(experiment.agents)
    if experiment.primary is None:
        yield Problem(
            at,
            f"experiment '{experiment.name}' is a shadow and does not say who answers; "
            f"name one of its variants ({agents}) as primary",
            "coulisse.E703",
        )
    elif experiment.primary not in experiment.agents:
        yield Problem(
            (*at, "primary"),
            f"experiment '{experiment.name}' has the primary '{experiment.primary}', "
            f"which is none of its variants ({agents})"
            f"{did_you_mean(experiment.primary, experiment.agents)}",
            "coulisse.E703",
        )


def _check_metrics(at: Location, experiment: ExperimentConfig) -> Iterable[Problem]:
    if experiment.strategy == "bandit" and experiment.metric is None:
        yield Problem(
            at,
            f"experiment '{experiment.name}' is a bandit and does not say what to go "
            "by; set metric: to a judge and its criterion, as in quality.helpfulness",
            "coulisse.E704",
        )
    for where, metric in metric_locations(experiment).items():
        if split_metric(metric) is None:
            yield Problem(
                (*at, *where),
                f"experiment '{experiment.name}' has the metric '{metric}', which is "
                "not judge.criterion; write it as in quality.helpfulness",
                "coulisse.E705",
            )


def metric_locations(experiment: ExperimentConfig) -> dict[Location, str]:
    """Return the metrics of an experiment, by their location."""
    found: dict[Location, str] = {}
    if experiment.metric is not None:
        found["metric",] = experiment.metric
    rule = experiment.stop_when
    if rule is not None and rule.metric is not None:
        found["stop_when", "metric"] = rule.metric
    return found


EXPERIMENTS: Section[dict[str, ExperimentConfig]] = Section(
    key="experiments",
    shape=Annotated[list[ExperimentConfig], AfterValidator(by_name("experiment"))],
    default=dict,
    noun="experiment",
    is_overridable=True,
    check=check_experiments,
)
