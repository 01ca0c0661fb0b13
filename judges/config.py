"""The YAML's `judges:` list.

| id | what is wrong |
|---|---|
| coulisse.E651 | a judge's provider is not under `providers:` |
"""

from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from config.sections import Config, Problem, Section
from config.validation.named_lists import by_name
from config.validation.suggestions import did_you_mean
from judges.scoring.verdict_parser import normalize_name
from providers.config import PROVIDERS

MAX_CRITERIA = 20
"""Maximum criteria of a judge: one answer scores them all."""

Criterion = Annotated[
    str,
    # No dot, because metrics have the form `judge.criterion`.
    StringConstraints(pattern=r"^[^\W\d][\w-]*$", max_length=64),
]
Description = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)
]


def check_distinct_criteria(rubrics: dict[str, str]) -> dict[str, str]:
    """Refuse criteria whose names could be confused in an answer."""
    seen: dict[str, str] = {}
    for name in rubrics:
        other = seen.setdefault(normalize_name(name), name)
        if other != name:
            raise PydanticCustomError(
                "duplicate_criterion",
                "the criteria '{other}' and '{name}' differ only in case or hyphens; "
                "rename one",
                {"other": other, "name": name},
            )
    return rubrics


class JudgeConfig(BaseModel):
    """A model that scores replies by criteria."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        min_length=1,
        max_length=255,
        description="The name for agents' `judges:`. Unique.",
    )
    provider: str = Field(description="A name under `providers:`.")
    model: str = Field(
        min_length=1, description="The provider's name of the judging model."
    )
    rubrics: Annotated[
        dict[Criterion, Description],
        Field(min_length=1, max_length=MAX_CRITERIA),
        AfterValidator(check_distinct_criteria),
    ] = Field(
        description="The criteria, each with a description of what matters. Scale and "
        "format are added. One call scores all criteria."
    )
    sampling_rate: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="The share of replies to score, chosen at random. In smoke tests "
        "all replies are scored, unless this is 0.",
    )
    timeout_seconds: float = Field(
        default=60.0,
        gt=0,
        le=600,
        description="Maximum time for one answer of its model, retries included.",
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Maximum tokens of its answer, reasoning included. Default: the "
        "model's own limit.",
    )


def check_judges(judges: dict[str, JudgeConfig], config: Config) -> Iterable[Problem]:
    """Report judges whose provider is not configured."""
    providers = config.get(PROVIDERS)
    for index, judge in enumerate(judges.values()):
        if judge.provider not in providers:
            yield Problem(
                ("judges", index, "provider"),
                f"judge '{judge.name}' uses provider '{judge.provider}', which is not "
                f"under providers:{did_you_mean(judge.provider, providers)}",
                "coulisse.E651",
            )


JUDGES: Section[dict[str, JudgeConfig]] = Section(
    key="judges",
    shape=Annotated[list[JudgeConfig], AfterValidator(by_name("judge"))],
    default=dict,
    noun="judge",
    is_overridable=True,
    check=check_judges,
    description="models that score replies",
)
