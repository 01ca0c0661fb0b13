"""The YAML's `safety:` map.

| id | what is wrong |
|---|---|
| coulisse.E851 | a check's provider is not under `providers:` |
"""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from config.sections import Config, Problem, Section
from config.validation.http_values import Headers, WebAddress
from config.validation.named_lists import by_name
from config.validation.suggestions import did_you_mean
from providers.config import PROVIDERS
from safety.detection.config import Detector, Name, SafetyModel, Text
from safety.detection.matches import Match

Stage = Literal["before", "beside", "after"]

NO_LEVEL = "none"
"""How results name a text without findings."""
FAILED = "error"
"""How results name a check that failed."""


class WebhookConfig(SafetyModel):
    """A request that reports an incident."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: WebAddress = Field(description="The address of the POST request.")
    headers: Headers = Field(
        default_factory=dict, description="Its headers, such as Authorization."
    )


Webhook = Annotated[
    WebhookConfig,
    BeforeValidator(
        lambda value: {"url": value} if isinstance(value, str) else value,
        json_schema_input_type=WebhookConfig | str,
    ),
]


class ActionConfig(SafetyModel):
    """What happens at a level. Without any, the incident is only noted."""

    instruct: Text | None = Field(
        None, description="An instruction for the agent that applies to this reply."
    )
    mask: bool = Field(
        False, description="Replaces what was found by its kind, such as `[email]`."
    )
    replace: Text | None = Field(
        None, description="A text that the user receives in place of the reply."
    )
    refuse: Text | None = Field(
        None, description="The same as a refusal, which clients show as such."
    )
    hand_over: str | None = Field(
        None, description="The agent that answers in place of this one."
    )
    webhook: Webhook | None = Field(
        None, description="An address, or a map with `url` and `headers`."
    )

    @property
    def names(self) -> list[str]:
        """The actions that are set."""
        return [name for name in type(self).model_fields if getattr(self, name)]

    @property
    def ends_reply(self) -> bool:
        return self.replace is not None or self.refuse is not None

    @model_validator(mode="after")
    def _check_one_reply(self) -> "ActionConfig":
        exclusive = ("mask", "replace", "refuse", "hand_over")
        given = [name for name in self.names if name in exclusive]
        if len(given) > 1:
            raise ValueError(
                f"has {' and '.join(given)}, which contradict each other; keep one"
            )
        if self.instruct and self.ends_reply:
            raise ValueError(
                "has instruct, but the agent does not reply; remove instruct, or "
                f"{given[0]}"
            )
        return self


NOTE = ActionConfig()


class SafetyCheck(SafetyModel):
    """Something that is checked in each turn."""

    name: Name = Field(description="Its name in replies, incidents and the log.")
    agents: Literal["all"] | tuple[str, ...] = Field(
        "all", description="The agents whose turns are checked: `all`, or their names."
    )
    when: Stage = Field(
        description="`before` checks the user's messages, and the agent waits for it; "
        "`beside` checks them while the agent replies; `after` checks the reply."
    )
    messages: Literal["new", "all"] = Field(
        "new",
        description="Which of the client's messages are checked: those since the last "
        "reply, or `all` that it sends, with its instructions and earlier messages.",
    )
    by: Annotated[
        Detector,
        BeforeValidator(
            lambda value: {value: True} if value == "injection" else value,
            json_schema_input_type=Detector | Literal["injection"],
        ),
    ] = Field(description="What finds it.")
    levels: Annotated[dict[Name, str], Field(min_length=1, max_length=20)] = Field(
        default_factory=lambda: {"flagged": ""},
        description="The levels, lowest first, each with what it means: the control "
        "model reads it.",
    )
    actions: dict[Name, ActionConfig] = Field(
        default_factory=dict, description="What happens at each level."
    )
    on_failure: Literal["allow", "refuse"] = Field(
        "allow", description="What happens if the check itself fails."
    )
    timeout_seconds: float = Field(
        10.0,
        gt=0,
        le=120,
        description="Maximum time of a call of its provider, retries included.",
    )

    @property
    def highest(self) -> str:
        return list(self.levels)[-1]

    def severity(self, level: str) -> int:
        """Return the position of a level, from 1; 0 for a level it does not have."""
        return list(self.levels).index(level) + 1 if level in self.levels else 0

    def level_of(self, match: Match) -> str:
        """Return the level of what a rule has found."""
        return match.level or self.highest

    def action(self, level: str) -> ActionConfig:
        return self.actions.get(level, NOTE)

    @property
    def can_end_reply(self) -> bool:
        may_refuse = self.on_failure == "refuse"
        return may_refuse or any(each.ends_reply for each in self.actions.values())

    @property
    def can_refuse(self) -> bool:
        return self.refuses or self.on_failure == "refuse"

    @property
    def refuses(self) -> bool:
        return any(action.refuse is not None for action in self.actions.values())

    @property
    def masks(self) -> bool:
        return any(action.mask for action in self.actions.values())

    @field_validator("levels")
    @classmethod
    def _check_names(cls, levels: dict[str, str]) -> dict[str, str]:
        for name in (NO_LEVEL, FAILED):
            if name in levels:
                raise ValueError(f"'{name}' is a level that every check has; rename it")
        return levels

    @model_validator(mode="after")
    def _check_levels(self) -> "SafetyCheck":
        for place, names in (("by", self.by.levels), ("actions", self.actions)):
            for level in names:
                if level not in self.levels:
                    raise ValueError(
                        f"{place} has the level '{level}', which is not under levels:"
                        f"{did_you_mean(level, self.levels)}"
                    )
        if self.by.model is not None and not all(self.levels.values()):
            raise ValueError("levels need a text each, which the control model reads")
        return self

    @model_validator(mode="after")
    def _check_actions(self) -> "SafetyCheck":
        for level, action in self.actions.items():
            if self.when != "before" and (action.instruct or action.hand_over):
                raise ValueError(
                    f"actions.{level} has {' and '.join(action.names)}: instruct and "
                    "hand_over come too late unless the check runs before the reply"
                )
            if action.mask and (self.by.regex or self.by.pii) is None:
                raise ValueError(
                    f"actions.{level} has mask, which only regex and pii can do"
                )
            if action.mask and self.when == "beside":
                raise ValueError(
                    f"actions.{level} has mask, which comes too late beside the reply"
                )
        if self.when == "after" and self.messages == "all":
            raise ValueError(
                "has messages: all, which is for the client's messages: when: before "
                "or beside"
            )
        if self.by.json_schema is not None and self.when != "after":
            raise ValueError("has a json_schema, which is for replies: when: after")
        return self


def _check_unique(checks: tuple[SafetyCheck, ...]) -> tuple[SafetyCheck, ...]:
    by_name("check")(checks)
    return checks


class SafetyConfig(SafetyModel):
    """Checks, and how long their incidents are kept."""

    keep_days: int | None = Field(
        365,
        ge=1,
        le=36_500,
        description="Days that incidents are kept; null keeps them for ever.",
    )
    window_chars: int = Field(
        200,
        ge=40,
        le=10_000,
        description="Maximum characters of a streamed reply that are held back while "
        "they are checked. Patterns find what is at most half as long.",
    )
    checks: Annotated[
        tuple[SafetyCheck, ...], Field(max_length=50), AfterValidator(_check_unique)
    ] = Field((), description="The checks, in the order in which they count.")

    def checks_of(self, agent: str) -> list[SafetyCheck]:
        """Return the checks of an agent's turns."""
        return [
            check
            for check in self.checks
            if check.agents == "all" or agent in check.agents
        ]


NO_SAFETY = SafetyConfig()


def check_safety(safety: SafetyConfig, config: Config) -> Iterable[Problem]:
    """Report checks whose provider is not configured."""
    providers = config.get(PROVIDERS)
    for index, check in enumerate(safety.checks):
        detector = check.by.model or check.by.moderation
        name = None if detector is None else detector.provider
        if name is not None and name not in providers:
            yield Problem(
                ("safety", "checks", index, "by", check.by.kind, "provider"),
                f"check '{check.name}' uses provider '{name}', which is not under "
                f"providers:{did_you_mean(name, providers)}",
                "coulisse.E851",
            )


SAFETY: Section[SafetyConfig] = Section(
    key="safety",
    shape=SafetyConfig,
    default=lambda: NO_SAFETY,
    check=check_safety,
    fails_closed=True,
    description="Checks of what users write and agents reply, and their incidents.",
)
