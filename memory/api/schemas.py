"""Pydantic models of the requests and responses of `/v1/memories`."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from access.users.list_queries import ListQuery
from access.users.request_user import CallerBody, CallerQuery
from api_base.field_types import (
    Instant,
    NullIfEmpty,
    PageLimit,
    UnixSeconds,
    refuse_nul,
)
from api_base.pagination import ListPage
from core import token_estimates
from core.errors import Invalid
from memory.facts import public_ids
from memory.facts.candidates import MAX_REVIEWED, Decisions
from memory.facts.types import (
    MAX_CONTENT_LENGTH,
    AnyCategory,
    Category,
    FactDraft,
    HeldFor,
    Outcome,
    SearchedCategory,
    Source,
    Status,
)
from memory.recall.types import Fusion
from telemetry.presentation.turn_serializers import format_time

MAX_QUERY_LENGTH = 4000
"""Characters."""
MAX_TTL_SECONDS = 100 * 366 * 24 * 3600


Content = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, min_length=1, max_length=MAX_CONTENT_LENGTH
    ),
    AfterValidator(refuse_nul),
]
FactKey = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=255),
    AfterValidator(refuse_nul),
]
SearchText = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_QUERY_LENGTH),
    AfterValidator(refuse_nul),
]
Importance = Annotated[int, Field(ge=1, le=10)]
FactIdText = Annotated[str, StringConstraints(max_length=64)]
SearchScope = Literal["facts", "messages", "all"]


class DeletionQuery(CallerQuery):
    """Query of `DELETE /v1/memories/{id}`."""

    purge: bool = Field(
        default=False,
        description="Also delete its history, and the text of the messages that tell "
        "it.",
    )


class MemoriesQuery(ListQuery):
    """Query of `GET /v1/memories`."""

    status: Literal[Status, "all"] = "active"
    category: AnyCategory | None = None
    source: Source | None = None
    pinned: bool | None = None
    as_of: Instant | None = Field(
        default=None, description="Return the memories as of this time."
    )


FactIds = Annotated[list[FactIdText], Field(max_length=MAX_REVIEWED)] | Literal["all"]


class ReviewBody(CallerBody):
    """Body of `POST /v1/memories/review`."""

    accept: FactIds = Field(
        default=[],
        description="Ids of memories that are pending review, or `all`: those that do "
        "not look like instructions.",
    )
    reject: FactIds = Field(
        default=[], description="Ids of memories to forget, or `all`."
    )

    def to_decisions(self) -> Decisions:
        """Return the decisions; raises `Invalid` and `FactUnknown`."""
        accept, reject = self.accept, self.reject
        if not accept and not reject:
            raise Invalid("give 'accept' or 'reject': a list of ids, or 'all'")
        if accept == reject == "all":
            raise Invalid("'accept' and 'reject' cannot both be 'all'")
        if accept != "all" and reject != "all":
            if both := {*accept} & {*reject}:
                raise Invalid(f"'{min(both)}' is in 'accept' and in 'reject'")
            if len(accept) + len(reject) > MAX_REVIEWED:
                raise Invalid(f"give at most {MAX_REVIEWED} ids at once")
        return Decisions(accept=_read_ids(accept), reject=_read_ids(reject))


def _read_ids(given: list[str] | Literal["all"]) -> list[uuid.UUID] | Literal["all"]:
    return given if given == "all" else list(map(public_ids.require_fact_id, given))


class MemorySearchQuery(CallerQuery):
    """Query of `GET /v1/memories/search`."""

    q: SearchText
    limit: PageLimit = 10
    in_: SearchScope = Field(default="facts", alias="in")
    category: SearchedCategory | None = None
    fusion: Fusion | None = None
    explain: bool = False

    @property
    def embedding_tokens(self) -> int:
        return token_estimates.estimate_text(self.q)


class MemorySearchBody(CallerBody):
    """Body of `POST /v1/memories/search`."""

    query: SearchText
    limit: PageLimit = 10
    in_: SearchScope = Field(default="facts", alias="in")
    category: SearchedCategory | None = None
    fusion: Fusion | None = Field(
        default=None,
        description="How the retrievers' results are merged. Unset: as configured.",
    )
    explain: bool = Field(
        default=False, description="Include the scores of each result."
    )

    @property
    def embedding_tokens(self) -> int:
        return token_estimates.estimate_text(self.query)


class FactDates(BaseModel):
    """When a fact is true, and how long it is kept."""

    valid_from: Instant | None = None
    valid_to: Instant | None = None
    expires_at: Instant | None = None

    @model_validator(mode="after")
    def _check_expiry(self) -> Self:
        if self.expires_at is not None and self.expires_at <= datetime.now(UTC):
            raise Invalid(
                "'expires_at' is in the past: send a later time, or delete the memory",
                param="expires_at",
            )
        return self


class MemoryDates(FactDates, CallerBody):
    """Fields that new and changed memories share."""

    ttl_seconds: Annotated[int, Field(ge=1, le=MAX_TTL_SECONDS)] | None = Field(
        default=None, description="Sets `expires_at`, from now."
    )

    @model_validator(mode="after")
    def _apply_ttl(self) -> Self:
        if self.ttl_seconds is None:
            return self
        if self.expires_at is not None:
            raise Invalid(
                "'ttl_seconds' sets 'expires_at': send only one of them",
                param="ttl_seconds",
            )
        self.expires_at = datetime.now(UTC) + timedelta(seconds=self.ttl_seconds)
        return self


class NewFactFields(FactDates):
    """Fields of a new fact, from clients and operators."""

    content: Content
    category: Category = "general"
    importance: Importance = 5
    key: FactKey | None = Field(
        default=None,
        description="Unique key within the category: a new fact with the same key "
        "replaces this one.",
    )
    pinned: bool = False

    def to_fact_draft(self, source: Source, **more: Any) -> FactDraft:
        """Return the fact's draft; `more` are fields only its writer may set."""
        return FactDraft(
            self.content,
            category=self.category,
            importance=self.importance,
            key=self.key,
            is_pinned=self.pinned,
            source=source,
            valid_from=self.valid_from,
            valid_to=self.valid_to,
            expires_at=self.expires_at,
            **more,
        )


class NewMemory(MemoryDates, NewFactFields):
    """Body of `POST /v1/memories`."""

    @property
    def embedding_tokens(self) -> int:
        is_rule = self.category == "rule"
        return 0 if is_rule else token_estimates.estimate_text(self.content)


def remove_schema_defaults(schema: dict[str, Any]) -> None:
    """Remove defaults from a schema: omitted fields stay unchanged."""
    for field in schema["properties"].values():
        field.pop("default", None)


class FactChangeFields(FactDates):
    """Changes of a fact, from clients and operators; null clears optional fields."""

    model_config = ConfigDict(json_schema_extra=remove_schema_defaults)

    content: Content = ""
    category: Category = "general"
    importance: Importance = 5
    key: FactKey | None = None
    pinned: bool = False
    status: Literal["active", "pending_review"] = Field(
        default="active", description="`active` restores it."
    )
    reason: Annotated[str, StringConstraints(max_length=500)] = Field(
        default="", description="Stored in the history."
    )

    def changes(self) -> dict[str, Any]:
        """Return the changes, by the names of `Fact.edit`."""
        names = sorted(self.model_fields_set & CHANGEABLE_FIELDS)
        return {COLUMN_NAMES.get(name, name): getattr(self, name) for name in names}


CHANGEABLE_FIELDS = {
    "content",
    "category",
    "importance",
    "key",
    "pinned",
    "status",
    "valid_from",
    "valid_to",
    "expires_at",
}
COLUMN_NAMES = {"pinned": "is_pinned"}


class MemoryChanges(MemoryDates, FactChangeFields):
    """Body of `PATCH /v1/memories/{id}`; null clears optional fields."""

    @property
    def embedding_tokens(self) -> int:
        if "content" in self.model_fields_set:
            return token_estimates.estimate_text(self.content)
        # A new status embeds the stored text again, which may have the full length.
        return MAX_CONTENT_LENGTH if "status" in self.model_fields_set else 0


# Responses. They are made of `Fact`, `FactChange` and the results of searches.


def _write_fact_id(fact_id: Any) -> Any:
    is_id = isinstance(fact_id, uuid.UUID)
    return public_ids.format_fact_id(fact_id) if is_id else fact_id


def _write_changed_fields(values: Any) -> Any:
    """Return fields of a fact's history under their public names."""
    return values and {
        PUBLIC_NAMES.get(name, name): _write_changed_field(name, value)
        for name, value in values.items()
    }


def _write_changed_field(name: str, value: Any) -> Any:
    if value is None or (value == "" and name in ("agent", "quote", "held_for")):
        return None
    if name == "superseded_by_id":
        return public_ids.format_fact_id(uuid.UUID(value))
    if name in ("said_at", "valid_from", "valid_to", "expires_at"):
        return format_time(datetime.fromisoformat(value))
    return value


PUBLIC_NAMES = {"is_pinned": "pinned", "superseded_by_id": "superseded_by"}
FactId = Annotated[str, BeforeValidator(_write_fact_id)]
ChangedFields = Annotated[dict[str, Any] | None, BeforeValidator(_write_changed_fields)]


class MemoryObject(BaseModel):
    model_config = ConfigDict(from_attributes=True, populate_by_name=True)

    id: FactId = Field(description="`mem_` and 32 hexadecimal digits.")
    object: Literal["memory"] = "memory"
    content: str
    category: AnyCategory
    key: str | None
    importance: int
    status: Status = Field(validation_alias="current_status")
    held_for: Annotated[HeldFor | None, BeforeValidator(lambda text: text or None)] = (
        Field(description="Why it is pending review.")
    )
    pinned: bool = Field(validation_alias="is_pinned")
    source: Source
    scope: NullIfEmpty = Field(
        description="`agent:NAME` or `thread:NAME` if it is recalled only there."
    )
    agent: NullIfEmpty
    quote: NullIfEmpty
    said_at: datetime
    valid_from: datetime | None
    valid_to: datetime | None
    expires_at: datetime | None
    superseded_by: FactId | None = Field(validation_alias="superseded_by_id")
    created_at: UnixSeconds
    updated_at: UnixSeconds


class SavedMemory(MemoryObject):
    outcome: Outcome
    superseded: FactId | None


class MemoryList(ListPage[MemoryObject]):
    pass


class MemoryReview(BaseModel):
    """The memories that are pending review."""

    object: Literal["memory.review"] = "memory.review"
    pending_review: int
    held_for: dict[HeldFor, int] = Field(description="By reason.")

    @classmethod
    def of(cls, counts: Mapping[str, int], **more: Any) -> Self:
        total = sum(counts.values())
        return cls(pending_review=total, held_for=counts, **more)


class ReviewedMemories(MemoryReview):
    """The outcome of a review, and the counts of what is still pending."""

    accepted: list[FactId]
    rejected: list[FactId]
    unknown: list[FactId] = Field(
        description="Ids of no memory pending review, or of rules beyond the limit."
    )


class MemoryChange(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    object: Literal["memory.change"] = "memory.change"
    at: datetime
    action: str
    by: str
    reason: NullIfEmpty
    before: ChangedFields
    after: ChangedFields


class FactWithHistory(MemoryObject):
    """A fact with its history, oldest first."""

    history: list[MemoryChange]


class MemoryHistory(BaseModel):
    object: Literal["list"] = "list"
    data: list[MemoryChange]
    has_more: bool = False


class DeletedMemory(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: FactId
    object: Literal["memory.deleted"] = "memory.deleted"
    deleted: Literal[True] = True


Explanation = Annotated[
    dict[str, Any] | None, Field(exclude_if=lambda scores: scores is None)
]


class MemorySearchResult(MemoryObject):
    score: float
    explain: Explanation = None


class MessageSearchResult(BaseModel):
    model_config = ConfigDict(from_attributes=True, populate_by_name=True)

    object: Literal["message"] = "message"
    thread_id: NullIfEmpty = Field(validation_alias="thread")
    position: int
    role: str
    content: str = Field(validation_alias="text")
    agent: NullIfEmpty
    importance: float
    created_at: UnixSeconds
    score: Annotated[
        float, BeforeValidator(lambda score: getattr(score, "total", score))
    ]
    explain: Explanation = None


class SearchResultList(BaseModel):
    object: Literal["list"] = "list"
    data: list[MemorySearchResult | MessageSearchResult]
    has_more: bool
    embedding: str = Field(
        description="The embedder's id; `off` or `failed` if only words were searched."
    )
    explain: Explanation = None
