"""The YAML's `smoke_tests:` list.

| id | what is wrong |
|---|---|
| coulisse.E801 | a persona's provider is not under `providers:` |
| coulisse.E802 | a test's target is neither an agent nor an experiment |
| coulisse.E803 | a persona sets a parameter that its provider does not support |
| coulisse.E804 | a test's fields contradict each other |
| coulisse.E805 | a test expects a score that no judge gives its target's replies |
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from agents.config import AGENTS, ReasoningEffort
from agents.memory_config import Probability
from config.sections import Config, Problem, Section
from config.validation.named_lists import by_name
from config.validation.suggestions import did_you_mean
from experiments.config import EXPERIMENTS, split_metric
from judges.config import JUDGES
from providers import registry
from providers.config import PROVIDERS
from triggers.config import Expression, TimeZone
from triggers.scheduling.cron_schedule import CronSchedule
from turns.preparation import routing

PARAMETERS = {"max_tokens", "reasoning_effort", "seed", "temperature", "top_p"}
"""The persona's fields that are sent unchanged, under OpenAI's names."""

Text = Annotated[str, Field(min_length=1)]


class PersonaConfig(BaseModel):
    """The model that plays the user."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: str = Field(description="A name under `providers:`.")
    model: str = Field(min_length=1, description="The model's name at the provider.")
    preamble: str = Field(
        min_length=1,
        description="The persona's instructions: who the user is, what they want and "
        "how they end the conversation.",
    )
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="Sampling temperature."
    )
    top_p: Probability | None = Field(
        default=None, description="Probability mass for nucleus sampling."
    )
    max_tokens: int | None = Field(
        default=None, ge=1, description="Maximum tokens of a message."
    )
    seed: int | None = Field(
        default=None,
        description="Seed for repeatable messages, with providers that support it.",
    )
    reasoning_effort: ReasoningEffort | None = Field(
        default=None, description="Reasoning effort, for reasoning models."
    )
    extra_body: dict[str, Any] = Field(
        default={}, description="Fields added to the provider's request unchanged."
    )

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The parameters it sets, under OpenAI's names."""
        return self.model_dump(include=PARAMETERS, exclude_none=True)


class Expectations(BaseModel):
    """The conditions for a run to pass."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tools_called: tuple[Text, ...] = Field(
        default=(),
        description="Tools and subagents that must be called, at any depth, by name.",
    )
    tools_not_called: tuple[Text, ...] = Field(
        default=(), description="Tools and subagents that must not be called."
    )
    contains: tuple[Text, ...] = Field(
        default=(),
        description="Texts that a reply of the agent must contain, ignoring case.",
    )
    not_contains: tuple[Text, ...] = Field(
        default=(),
        description="Texts that no reply of the agent may contain, ignoring case.",
    )
    min_score: dict[str, Annotated[float, Field(ge=0, le=10)]] = Field(
        default={},
        description="Minimum means of a run's scores, by `judge.criterion`.",
    )
    max_turns: int | None = Field(
        default=None,
        ge=1,
        description="Maximum replies until one side sends the stop marker.",
    )
    max_cost_usd: float | None = Field(
        default=None,
        ge=0,
        description="Maximum cost of the agent's replies in US dollars.",
    )


class SmokeTestConfig(BaseModel):
    """A conversation between a persona and an agent or experiment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=255, description="Unique.")
    target: str = Field(
        min_length=1,
        max_length=255,
        description="The agent or experiment to test.",
    )
    persona: PersonaConfig = Field(description="The synthetic user.")
    initial_message: str | None = Field(
        default=None,
        min_length=1,
        description="The persona's first message. Unset: the model writes it.",
    )
    stop_marker: str | None = Field(
        default=None,
        min_length=1,
        description="A text that ends the conversation when either side says it.",
    )
    max_turns: int = Field(
        default=10, ge=1, le=1_000, description="Maximum replies of the agent."
    )
    repetitions: int = Field(
        default=1,
        ge=1,
        le=1_000,
        description="Conversations per launch, each with a new user.",
    )
    schedule: Expression | None = Field(
        default=None,
        description="When to launch the test: a cron expression of five fields, or six "
        "with the second first. Unset: only by command or from the studio.",
    )
    time_zone: TimeZone = Field(
        default="UTC", description="The time zone of the schedule."
    )
    timeout_seconds: float = Field(
        default=600,
        gt=0,
        le=86_400,
        description="Maximum duration of a conversation.",
    )
    expect: Expectations = Field(
        default=Expectations(), description="The conditions for each run to pass."
    )
    keep_days: int | None = Field(
        default=30,
        ge=1,
        le=36_500,
        description="Days after which a run is deleted. `null` keeps runs for ever.",
    )

    @cached_property
    def times(self) -> CronSchedule | None:
        return (
            None
            if self.schedule is None
            else CronSchedule(self.schedule, self.time_zone)
        )


def _check_tests(
    tests: dict[str, SmokeTestConfig], config: Config
) -> Iterable[Problem]:
    """Report tests without a target, and those that can never pass."""
    for index, test in enumerate(tests.values()):
        yield from _check_target(index, test, config)
        yield from _check_persona(index, test, config)
        yield from _check_consistency(index, test)
        yield from _check_scores(index, test, config)


def _check_target(
    index: int, test: SmokeTestConfig, config: Config
) -> Iterable[Problem]:
    if not routing.exists(config, test.target):
        hint = did_you_mean(test.target, routing.list_names(config))
        yield Problem(
            ("smoke_tests", index, "target"),
            f"smoke test '{test.name}' talks to '{test.target}', which is neither an "
            f"agent nor an experiment{hint}",
            "coulisse.E802",
        )


def _check_persona(
    index: int, test: SmokeTestConfig, config: Config
) -> Iterable[Problem]:
    providers, persona = config.get(PROVIDERS), test.persona
    provider = providers.get(persona.provider)
    if provider is None:
        yield Problem(
            ("smoke_tests", index, "persona", "provider"),
            f"the persona of smoke test '{test.name}' uses provider "
            f"'{persona.provider}', which is not under providers:"
            f"{did_you_mean(persona.provider, providers)}",
            "coulisse.E801",
        )
        return
    for name in registry.find_unsupported_parameters(provider, persona.parameters):
        yield Problem(
            ("smoke_tests", index, "persona", name),
            f"the persona of smoke test '{test.name}' sets '{name}', which provider "
            f"'{persona.provider}' ({provider.kind}) does not support; remove it",
            "coulisse.E803",
        )


def _check_consistency(index: int, test: SmokeTestConfig) -> Iterable[Problem]:
    at, expect = ("smoke_tests", index), test.expect
    marker, first = test.stop_marker, test.initial_message
    if marker is not None and first is not None and marker in first:
        yield _contradiction(
            (*at, "initial_message"),
            f"smoke test '{test.name}' has its stop_marker in initial_message, which "
            "would end the conversation at once; remove it there",
        )
    if expect.max_turns is not None and marker is None:
        yield _contradiction(
            (*at, "expect", "max_turns"),
            f"smoke test '{test.name}' expects an end within {expect.max_turns} turns, "
            "but has no stop_marker; add one",
        )
    if test.times is not None and not test.times.is_possible:
        yield _contradiction(
            (*at, "schedule"),
            f"smoke test '{test.name}' has the schedule '{test.schedule}', which never "
            "occurs: no year has such a day",
        )
    for name in sorted({*expect.tools_called} & {*expect.tools_not_called}):
        yield _contradiction(
            (*at, "expect", "tools_not_called"),
            f"smoke test '{test.name}' lists '{name}' under both tools_called and "
            "tools_not_called; remove one",
        )


def _check_scores(
    index: int, test: SmokeTestConfig, config: Config
) -> Iterable[Problem]:
    for metric in test.expect.min_score:
        for reason in _missing_score_reasons(config, test.target, metric):
            yield Problem(
                ("smoke_tests", index, "expect", "min_score", metric),
                f"smoke test '{test.name}' expects score '{metric}', {reason}",
                "coulisse.E805",
            )


def _missing_score_reasons(config: Config, target: str, metric: str) -> Iterator[str]:
    """Yield why some replies of a target cannot get this score, as relative clauses."""
    judges = config.get(JUDGES)
    judge, criterion = split_metric(metric) or (metric, "")
    if judge not in judges:
        known = [f"{name}.{each}" for name in judges for each in judges[name].rubrics]
        yield (
            "which is not a judge's score; write it as judge.criterion"
            f"{did_you_mean(metric, known)}"
        )
        return
    if criterion not in judges[judge].rubrics:
        known = list(judges[judge].rubrics)
        yield (
            f"but judge '{judge}' scores only {', '.join(known)}"
            f"{did_you_mean(criterion, known)}"
        )
        return
    for name in _answering_agents(config, target):
        if judge not in config.get(AGENTS)[name].judges:
            yield f"but agent '{name}' does not list '{judge}' under judges"


def _answering_agents(config: Config, target: str) -> list[str]:
    """Return the existing agents that may answer for a target."""
    experiment = config.get(EXPERIMENTS).get(target)
    agents = (target,) if experiment is None else experiment.agents
    return [name for name in agents if name in config.get(AGENTS)]


def _contradiction(location: tuple[str | int, ...], message: str) -> Problem:
    return Problem(location, message, "coulisse.E804")


SMOKE_TESTS: Section[dict[str, SmokeTestConfig]] = Section(
    key="smoke_tests",
    shape=Annotated[list[SmokeTestConfig], AfterValidator(by_name("smoke test"))],
    default=dict,
    noun="smoke test",
    is_overridable=True,
    check=_check_tests,
    description="conversations with synthetic users",
)
