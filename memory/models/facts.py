"""The model of facts: what every turn reads of them, and the rules of one."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection, models
from django.db.models import Q
from django.utils import timezone

from memory.config import USER_SCOPE
from memory.errors import FactInvalid, FactUnknown, KeyTaken
from memory.facts import fact_validation, public_ids
from memory.models import fact_choices, plain_sql
from memory.models.fact_changes import TrackedFact
from memory.models.fact_choices import HUMAN_SOURCES, FactStatus
from memory.models.fact_queryset import FactCursor, FactQuerySet
from memory.models.messages import StoredMessage
from memory.models.owners import Owner
from memory.recall.types import UNEMBEDDED, EmbeddingResult

END_FIELDS = ("valid_to", "expires_at")
PINNED_IMPORTANCE = 9
"""The importance from which a fact is in every prompt."""


FactBaseManager = models.Manager.from_queryset(FactQuerySet)


MAX_SCOPE_LENGTH = 600
"""The name of a thread, and what is before it."""


class PromptFacts(NamedTuple):
    """What every prompt of a user contains, each in a stable order.

    So providers can reuse the prompt's prefix.
    """

    rules: list["Fact"]
    facts: list["Fact"]


class FactManager(FactBaseManager["Fact"]):
    """What every turn reads, as `memory.models.plain_sql` explains."""

    def in_every_prompt(
        self, user_id: uuid.UUID, *, limit: int, scope: str = USER_SCOPE
    ) -> PromptFacts | None:
        """Return the user's rules, and up to `limit` facts, of a scope, valid now.

        The facts are the pinned ones, then the most important. Returns None if the
        user has switched recall off.
        """
        now = plain_sql.to_sql_time(timezone.now())
        hint = INDEX_HINT if connection.vendor == "sqlite" else ""
        values = [
            scope,
            now,
            now,
            now,
            plain_sql.to_sql_id(user_id),
            fact_validation.MAX_RULES + limit,
        ]
        rows = plain_sql.fetch_rows(IN_PROMPTS_SQL.format(index=hint), values)
        if rows and not rows[0][0]:
            return None
        rules = [ROWS.read(row[2:]) for row in rows if row[1]]
        # Without a fact there is one row, whose columns are NULL.
        facts = [row[2:] for row in rows if row[1] is not None and not row[1]]
        rules.sort(key=lambda fact: fact.rule_order)
        return PromptFacts(rules, list(map(ROWS.read, facts[:limit])))

    def by_passage(
        self, user_id: uuid.UUID, passage_ids: Sequence[int]
    ) -> dict[int, "Fact"]:
        """Return the user's facts behind passages."""
        rows = plain_sql.fetch_of_passages(BY_PASSAGE_SQL, user_id, passage_ids)
        return {row[0]: ROWS.read(row[1:]) for row in rows}


class Fact(TrackedFact):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user_id = models.UUIDField()
    content = models.TextField()
    category = models.CharField(
        max_length=16, choices=fact_choices.FactCategory, default="general"
    )
    key = models.CharField(max_length=255, null=True)  # noqa: DJ001  NULL is not ""
    """Unique key: `category` + `key` identify one fact."""
    importance = models.SmallIntegerField(default=5)
    """1 is trivial, 10 critical."""
    status = models.CharField(max_length=16, choices=FactStatus, default="active")
    held_for = models.CharField(
        max_length=16, choices=fact_choices.HeldFor, blank=True, default=""
    )
    """Why it is pending review."""
    is_pinned = models.BooleanField(default=False)
    """Pinned facts do not expire, and prompts include them first."""
    source = models.CharField(max_length=16, choices=fact_choices.FactSource)
    scope = models.CharField(
        max_length=MAX_SCOPE_LENGTH, blank=True, default="", db_default=""
    )
    """Where it is recalled (`memory.config.scope_key`)."""
    agent = models.CharField(max_length=255, blank=True, default="")
    """The agent whose turn it was extracted from, or that saved it."""
    quote = models.TextField(blank=True, default="")
    """The user's own words that it was extracted from."""
    message = models.ForeignKey(StoredMessage, null=True, on_delete=models.SET_NULL)
    said_at = models.DateTimeField()
    """When the user said it: later statements win."""
    valid_from = models.DateTimeField(null=True)
    valid_to = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    superseded_by = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="supersedes"
    )
    replaces_id = models.UUIDField(null=True)
    """Of a held fact: the fact that it supersedes once it is accepted."""
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = FactManager()
    viewed_at: datetime | None = None
    """The past time of which this is the state; None means now."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user_id", "category", "key", "scope"],
                condition=Q(status="active", key__isnull=False),
                name="memory_fact_user_category_key",
            ),
            models.CheckConstraint(
                condition=Q(importance__gte=1, importance__lte=10),
                name="memory_fact_importance",
            ),
        ]
        indexes = [
            models.Index(
                fields=["user_id", "status", "-created_at", "-id"],
                name="memory_fact_of_user",
            ),
            # The lists of all users in the studio.
            models.Index(
                fields=["status", "-created_at", "-id"], name="memory_fact_by_status"
            ),
            models.Index(fields=["-created_at", "-id"], name="memory_fact_newest"),
            models.Index(
                fields=["expires_at"],
                condition=Q(status="active", expires_at__isnull=False),
                name="memory_fact_expiring",
            ),
            # The sweep looks for those whose session has ended.
            models.Index(
                fields=["said_at"],
                condition=Q(status="pending_review", held_for="session"),
                name="memory_fact_held_for_session",
            ),
            # The last episode, for the next session.
            models.Index(
                fields=["user_id", "-said_at"],
                condition=Q(status="active", category="episode"),
                name="memory_fact_episodes",
            ),
            models.Index(
                fields=["user_id"],
                condition=Q(status="active")
                & (Q(is_pinned=True) | Q(importance__gte=9) | Q(category="rule")),
                name="memory_fact_in_prompts",
            ),
        ]

    def __str__(self) -> str:
        return f"[{self.category}] {self.content[:60]}"

    @property
    def public_id(self) -> str:
        """The id for clients: `mem_` and 32 hexadecimal digits."""
        return public_ids.format_fact_id(self.id)

    @property
    def rule_order(self) -> tuple[bool, str, datetime, uuid.UUID]:
        """By key, then by age."""
        return self.key is None, self.key or "", self.created_at, self.id

    @property
    def cursor(self) -> FactCursor:
        return self.created_at, self.id

    def status_at(self, at: datetime) -> str:
        """Return the status, which is `expired` from `expires_at` on."""
        is_due = self.expires_at is not None and self.expires_at <= at
        if self.status == "active" and is_due and not self.is_pinned:
            return "expired"
        return self.status

    @property
    def current_status(self) -> str:
        """The status now, or when the fact was as it is read."""
        return self.status_at(self.viewed_at or timezone.now())

    def is_valid_at(self, at: datetime) -> bool:
        has_begun = self.valid_from is None or self.valid_from <= at
        return has_begun and (self.valid_to is None or self.valid_to > at)

    def is_shown_at(self, at: datetime, status: str) -> bool:
        """Return whether it has the status at a time; an active one must be valid."""
        is_valid = status != "active" or self.is_valid_at(at)
        return is_valid and self.status_at(at) == status

    @property
    def is_held(self) -> bool:
        return self.current_status == FactStatus.PENDING_REVIEW

    @property
    def can_be_pinned(self) -> bool:
        return not self.is_pinned and self.current_status == FactStatus.ACTIVE

    def rewind(self, at: datetime) -> None:
        """Set its fields, in memory only, to their values at a time.

        Raises `FactUnknown` if it was not known then, or is forgotten since.
        """
        is_forgotten = self.status == FactStatus.DELETED
        if self.created_at > at:
            raise FactUnknown("This fact was not known then")
        for step in self.changes.filter(at__gt=at).order_by("-at", "-id"):
            step.undo(self)
        if is_forgotten and self.status != FactStatus.DELETED:
            raise FactUnknown("This fact was forgotten since then")
        self.viewed_at = at

    @property
    def was_set_by_person(self) -> bool:
        """Whether extraction must not change it."""
        return self.is_pinned or self.source in HUMAN_SOURCES

    # Changes by a person or an agent, written at once.

    def edit(
        self,
        changes: Mapping[str, Any],
        *,
        by: str,
        reason: str = "",
        text: EmbeddingResult = UNEMBEDDED,
    ) -> bool:
        """Change the stored fact, and this one with it; return whether it differs.

        `changes` may hold content, category, importance, key, is_pinned, valid_from,
        valid_to, expires_at and status: `pending_review` removes a fact from prompts,
        `active` restores it, even if superseded, expired or deleted. `text` is the
        vector of the content, or the reason if it has none.

        Raises `FactUnknown`, `FactInvalid` and `KeyTaken`.
        """
        cleaned = fact_validation.clean_changes(changes)
        with self.stored() as now:
            values = {**self._derived_values(cleaned, by, now), **cleaned}
            dates = ("valid_from", *END_FIELDS)
            fact_validation.check_interval(*(self._after(values, n) for n in dates))
            category = self._after(values, "category")
            fact_validation.check_length(category, self._after(values, "content"))
            if category == fact_choices.FactCategory.RULE:
                key = self._after(values, "key")
                values["key"] = fact_validation.clean_rule_key(key)
                self._check_rule_count(values)
            self._check_key(values)
            action = self._history_action(values, now)
            return self.change(values, action, by=by, at=now, reason=reason, text=text)

    def pin(self, *, by: str, reason: str = "") -> bool:
        """Put it first into every prompt, and let it not expire."""
        return self.edit({"is_pinned": True}, by=by, reason=reason)

    def unpin(self, *, by: str, reason: str = "") -> bool:
        return self.edit({"is_pinned": False}, by=by, reason=reason)

    def send_to_review(self, *, by: str, reason: str = "") -> bool:
        """Remove it from prompts and searches until it is restored."""
        return self.edit({"status": "pending_review"}, by=by, reason=reason)

    def restore(
        self, *, by: str, reason: str = "", text: EmbeddingResult = UNEMBEDDED
    ) -> bool:
        """Make it active again, even if it is superseded, expired or forgotten."""
        return self.edit({"status": "active"}, by=by, reason=reason, text=text)

    @contextmanager
    def stored(self) -> Iterator[datetime]:
        """Read the fact again under its user's lock, and write what is changed."""
        with Owner.objects.locked(self.user_id) as now:
            try:
                self.refresh_from_db()
            except Fact.DoesNotExist as exc:
                raise FactUnknown from exc
            yield now
            Fact.objects.write(self.user_id, [self])

    def _after(self, values: Mapping[str, Any], name: str) -> Any:
        return values.get(name, getattr(self, name))

    def _derived_values(
        self, changes: Mapping[str, Any], by: str, now: datetime
    ) -> dict[str, Any]:
        """Return what changes imply: a new author, no links and no past ends."""
        values: dict[str, Any] = {}
        if changes.get("status") == "active" and self.status_at(now) != "active":
            ends = {name: getattr(self, name) for name in END_FIELDS}
            values = {name: None for name, end in ends.items() if end and end <= now}
            values["superseded_by_id"] = None
        if changes.get("content", self.content) != self.content:
            values["said_at"] = now
            if by in HUMAN_SOURCES:
                values["source"] = by
        return values

    def _check_rule_count(self, values: Mapping[str, Any]) -> None:
        if self._after(values, "status") != FactStatus.ACTIVE:
            return
        rules = Fact.objects.filter(
            user_id=self.user_id, category="rule", scope=self.scope, status="active"
        )
        if rules.exclude(id=self.id).count() >= fact_validation.MAX_RULES:
            raise FactInvalid(f"{fact_validation.TOO_MANY_RULES}: delete one first")

    def _check_key(self, values: Mapping[str, Any]) -> None:
        key, category = self._after(values, "key"), self._after(values, "category")
        if key is None or self._after(values, "status") != FactStatus.ACTIVE:
            return
        others = Fact.objects.filter(
            user_id=self.user_id,
            category=category,
            key=key,
            scope=self.scope,
            status="active",
        )
        if other := others.exclude(id=self.id).first():
            raise KeyTaken(
                f"the key '{other.key}' of category '{other.category}' belongs to fact "
                f"{other.public_id}: {other.content:.100}; "
                "change or delete that one, or choose another key",
                param="key",
            )

    def _history_action(self, values: Mapping[str, Any], now: datetime) -> str:
        old_status = self.status_at(now)
        status = values.get("status", old_status)
        if status != old_status:
            return "restored" if status == "active" else "flagged"
        is_pinned = self._after(values, "is_pinned")
        if is_pinned != self.is_pinned:
            return "pinned" if is_pinned else "unpinned"
        return "updated"


ROWS = plain_sql.RowReader(Fact)
IN_PROMPTS_SQL = f"""
    SELECT o.is_recall_on, f.category = 'rule', {ROWS.columns("f")}
    FROM memory_owner o LEFT JOIN memory_fact f {{index}}
        ON o.is_recall_on AND f.user_id = o.user_id AND f.status = 'active'
        AND f.scope = %s
        AND (f.is_pinned OR f.importance >= {PINNED_IMPORTANCE} OR f.category = 'rule')
        AND (f.is_pinned OR f.expires_at IS NULL OR f.expires_at > %s)
        AND (f.valid_from IS NULL OR f.valid_from <= %s)
        AND (f.valid_to IS NULL OR f.valid_to > %s)
    WHERE o.user_id = %s
    ORDER BY f.category = 'rule' DESC,
        f.is_pinned DESC, f.importance DESC, f.created_at, f.id
    LIMIT %s
"""  # noqa: S608
INDEX_HINT = "INDEXED BY memory_fact_in_prompts"
"""Without statistics, SQLite would read all facts of the user."""
BY_PASSAGE_SQL = f"""
    SELECT p.id, {ROWS.columns("f")} FROM memory_passage p
        JOIN memory_fact f ON f.id = p.fact_id
    WHERE p.user_id = %s AND f.user_id = %s AND p.id IN
"""  # noqa: S608
