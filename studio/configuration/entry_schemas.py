"""Response schemas of the entries of all kinds."""

from datetime import datetime
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, Field, RootModel, create_model

from config.overrides.overridable_entries import OverridableEntry
from experiments.schemas import ExperimentResults
from judges.models import JudgingCounts
from judges.schemas import FailedJudging, StudioFeedback, StudioScore
from smoke.schemas import ComparedMeasure, SmokeBatch
from studio.configuration.agent_details import AgentDetails, AgentOverview
from studio.configuration.entry_types import Details, EntryKind
from telemetry.storage.costs import JudgeCost

VERSIONS_SHOWN = 20
"""Versions of an entry that one response shows."""


class ListedEntry(BaseModel):
    """An entry in a list."""

    name: str
    label: Literal["yaml", "dynamic", "override", "tombstoned"] = Field(
        description="The source: the file (`yaml`), the studio (`dynamic`), the studio "
        "in place of the file (`override`), or disabled in the studio (`tombstoned`)."
    )
    is_active: bool = Field(description="Whether an entry of this name is in effect.")
    is_rejected: bool = Field(
        description="Whether the studio's value is ignored, because it is invalid with "
        "the current file."
    )
    reason: str = Field(description="Why the studio's value is invalid.")
    version: int = Field(
        description="The version of the studio's value; 0 without one. If you send it "
        "as `?version=` with a change, a concurrent edit fails with 409."
    )
    changed_at: datetime | None
    changed_by: str


class EntryVersion(BaseModel):
    """A change of an entry in the studio."""

    id: int
    action: Literal["saved", "tombstoned", "reset", "removed"]
    at: datetime
    by: str
    yaml: str = Field(validation_alias=AliasChoices("yaml", "body"))


class DetailedEntry(ListedEntry):
    """An entry in full."""

    yaml: str = Field(
        description="The studio's YAML, or the file's if the studio has none."
    )
    file_yaml: str | None = Field(description="The file's YAML, if it has the entry.")
    diff: str = Field(
        description="A unified diff from the file's YAML to the studio's."
    )
    history: list[EntryVersion] = Field(
        description="Newest first, at most 20; `?before=` returns older versions."
    )
    has_more: bool = Field(description="Whether there are older versions.")


# The overview and the details of each kind.


class VariantWeek(BaseModel):
    """A variant's share and scores in the last week."""

    agent: str
    turns: int
    share: float


class ExperimentOverview(BaseModel):
    """The last week; empty if the experiment is disabled."""

    turns: int = 0
    variants: list[VariantWeek] = []
    winner: str | None = Field(None, description="The winner by `stop_when`, if any.")


class ExperimentDetails(BaseModel):
    """The results of an experiment; empty if it is disabled."""

    results: ExperimentResults | None = None


class JudgeOverview(BaseModel):
    """The last week; empty if the judge is disabled."""

    count: int = 0
    mean: float | None = None
    failed: int = 0


class WindowMean(BaseModel):
    """Mean scores in a time window."""

    mean: float | None
    count: int


class CriterionScores(BaseModel):
    """Mean scores by one criterion."""

    criterion: str
    windows: dict[str, WindowMean] = Field(description="For `24h`, `7d` and `30d`.")


class AgentCriterionScores(CriterionScores):
    """The scores of one agent."""

    agent: str


class DayScore(WindowMean):
    """The scores of one day, in UTC."""

    day: str
    criterion: str


class AgentFeedback(BaseModel):
    """Users' feedback on an agent."""

    agent: str
    scores: int
    mean: float | None
    up: int
    down: int
    comments: int


class JudgeDetails(BaseModel):
    """A judge's scores, by agent, with its failures and costs."""

    means: list[CriterionScores]
    by_agent: list[AgentCriterionScores]
    days: list[DayScore]
    counts: JudgingCounts = Field(description="Of the last 7 days.")
    costs: dict[str, JudgeCost] = Field(description="For `24h`, `7d` and `30d`.")
    failures: list[FailedJudging]
    recent: list[StudioScore]
    judged_agents: list[str]
    feedback: list[AgentFeedback]
    comments: list[StudioFeedback]


class SmokeTestOverview(BaseModel):
    """The last batch and the next launch; empty if the test is disabled."""

    last: SmokeBatch | None = None
    next_at: datetime | None = None


class SmokeTestDetails(BaseModel):
    """The newest batches of a smoke test."""

    next_at: datetime | None
    batches: list[SmokeBatch]
    has_more: bool
    compared: list[ComparedMeasure]


DETAIL_SCHEMAS: dict[str, tuple[type[BaseModel], type[BaseModel]]] = {
    "agents": (AgentOverview, AgentDetails),
    "experiments": (ExperimentOverview, ExperimentDetails),
    "judges": (JudgeOverview, JudgeDetails),
    "smoke": (SmokeTestOverview, SmokeTestDetails),
}
"""The schemas of the overview and of the details, by the path of the kind."""


def serialize_list_item(entry: OverridableEntry, overview: Details) -> dict[str, Any]:
    return {**_serialize_state(entry), "overview": overview}


def _serialize_state(entry: OverridableEntry) -> dict[str, Any]:
    state = ListedEntry.model_validate(entry, from_attributes=True)
    return {**state.model_dump(), "config": entry.data}


def serialize_entry(
    entry: OverridableEntry, details: Details, *, before: int | None = None
) -> dict[str, Any]:
    """Return an entry in full, with its history before a version."""
    versions = entry.versions(before=before, limit=VERSIONS_SHOWN + 1)
    history = [
        EntryVersion.model_validate(row, from_attributes=True)
        for row in versions[:VERSIONS_SHOWN]
    ]
    return {
        **_serialize_state(entry),
        "details": details,
        "yaml": entry.text,
        "file_yaml": entry.file_text,
        "diff": entry.diff,
        "history": [version.model_dump() for version in history],
        "has_more": len(versions) > VERSIONS_SHOWN,
    }


class DeletedEntry(BaseModel):
    """A deleted entry."""

    name: str
    deleted: Literal[True]


def remaining_schema(kind: EntryKind) -> type[BaseModel]:
    """Return the schema of an entry after it was disabled, deleted or reset."""
    root: Any = RootModel
    either = root[detail_schema(kind) | DeletedEntry]
    return create_model(f"Remaining{kind.config_class.__name__}", __base__=either)


def list_schema(kind: EntryKind) -> type[BaseModel]:
    overview, _ = DETAIL_SCHEMAS[kind.path]
    field = (overview, Field(description="The figures in the list."))
    listed = _entry_schema(kind, ListedEntry, "Listed", {"overview": field})
    fields: dict[str, Any] = {
        "object": (Literal["list"], "list"),
        "data": (list[listed], ...),  # type: ignore[valid-type]  # built at runtime
    }
    return create_model(f"{kind.config_class.__name__}List", **fields)


def detail_schema(kind: EntryKind) -> type[BaseModel]:
    _, details = DETAIL_SCHEMAS[kind.path]
    field = (details, Field(description="The activity of the entry."))
    return _entry_schema(kind, DetailedEntry, "Detailed", {"details": field})


def _entry_schema(
    kind: EntryKind, base: type[BaseModel], prefix: str, fields: dict[str, Any]
) -> type[BaseModel]:
    config = Field(
        description="The value in effect, in the format of requests; null without one."
    )
    all_fields = {"config": (kind.config_class | None, config), **fields}
    name = f"{prefix}{kind.config_class.__name__}"
    return create_model(name, __base__=base, **all_fields)
