"""Facts and their history in the studio.

`/admin/facts` lists those of all users, `/admin/users/{user}/facts` those of one, where
`?q=` searches as a turn recalls.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, get_args
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.models import ADDITION, CHANGE
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.text import Truncator

from access import user_lookup
from access.users import identity
from access.users.filters import UserFilter
from access.users.model_admin import UserRowsAdmin
from admin_base.actions import Outcome, action
from admin_base.columns import column, link
from admin_base.filters import ChoiceFilter, FlagFilter, TimeFilter
from admin_base.model_admin import redact_row
from admin_base.model_pages.change_list import SEARCH
from admin_base.query_parameters import query_int
from admin_base.templatetags.studio import NO_VALUE
from config import live
from core.errors import Invalid
from core.ids import UserId, parse_uuid
from core.text import redaction, time_parsing
from memory import memory_settings
from memory.admin.fact_filters import HELD_FOR, ScopeFilter, StatusFilter
from memory.admin.schemas import (
    OUTCOME_MESSAGES,
    FactChanges,
    FactListOrSearchResults,
    NewFact,
)
from memory.api import serializers
from memory.api.schemas import (
    MAX_QUERY_LENGTH,
    DeletedMemory,
    FactWithHistory,
    MemoryChange,
    MemoryObject,
    SavedMemory,
)
from memory.errors import FactUnknown, UserUnknown
from memory.facts import candidates, fact_store, forgetting, public_ids
from memory.facts.types import Category
from memory.models import Fact, FactStatus, Owner, StoredMessage, Thread
from memory.recall import query_preparation, sync_search
from memory.recall.query_embedding import NO_VECTOR
from memory.recall.sync_search import SearchResult
from telemetry.models import Turn

ACTOR = "operator"
MAX_FOUND = 20
"""Results of a search by default."""
EMBEDDED_LATER = (None, NO_VECTOR)
"""A restored fact is searchable by words; the next sweep adds its vector."""


@admin.register(Fact)
class FactAdmin(UserRowsAdmin):
    """Facts about users, and what may be done with them."""

    path = "facts"
    row_path = "users/<str:user>/facts"
    parent_paths = {row_path: None}
    title = "Memory"
    icon = "neurology"
    links = [("Settings", "/admin/memory/settings")]
    ordering = ["-created_at"]
    list_filter = [
        StatusFilter,
        ChoiceFilter.of(HELD_FOR, title="Held because"),
        "category",
        ChoiceFilter.of("source"),
        FlagFilter.of("pinned", field="is_pinned", title="Pinned only"),
        UserFilter,
        TimeFilter.of("created_at"),
        ScopeFilter,
    ]
    search_help_text = "A message of the user: facts and messages that fit it"
    column_classes = {
        "user": "long user",
        "category": "is-wide",
        "importance": "number is-wide",
        "source": "is-wide",
    }
    fieldsets = [
        ("Fact", {"fields": ["category", "key", "importance", "public_id"]}),
        ("Provenance", {"fields": ["source", "agent", "quote", "said", "said_at"]}),
        (
            "Validity",
            {
                "fields": [
                    "valid_from",
                    "valid_to",
                    "expires_at",
                    "newer",
                    "contradicted",
                ]
            },
        ),
    ]
    detail_parameters = {"as_of": "The fact as it was at this time."}
    actions = [
        "accept",
        "reject",
        "pin",
        "unpin",
        "review",
        "restore",
        "forget",
        "purge",
    ]
    row_buttons = ["accept", "reject", "pin", "unpin", "forget"]
    audit_noun = "memory"
    delete_action = "forget"
    delete_response = DeletedMemory
    schema = FactWithHistory
    row_schema = MemoryObject
    list_response = FactListOrSearchResults
    create_schema, create_response = NewFact, SavedMemory
    update_schema, update_method = FactChanges, "patch"
    clearable_fields = ["key", "valid_from", "valid_to", "expires_at"]
    list_template = "memory/facts.html"
    detail_template = "memory/fact.html"
    empty_text = "Facts are extracted from messages of users."

    # The rows.

    def user_of(self, request: HttpRequest) -> UserId | None:
        """Return the user in the address; None for all users."""
        name = self.scope(request).get("user")
        if name is None:
            return None
        return identity.derive_user_id(identity.check_identifier(name))

    def row_address(self, row: Any) -> str:
        return f"{user_address(row.user_id)}/facts/{row.public_id}"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Fact]:
        user_id = self.user_of(request)
        return Fact.objects.filter(**({} if user_id is None else {"user_id": user_id}))

    def find_row(self, request: HttpRequest, id: str) -> Fact:
        # Forms name chosen rows by their keys.
        fact_id = public_ids.parse_fact_id(id) or parse_uuid(id)
        row = fact_id and self.get_queryset(request).filter(pk=fact_id).first()
        if not row:
            raise FactUnknown
        return row

    def get_row(self, request: HttpRequest, id: str) -> Any:
        """Return a fact as it is, or as it was at the time `as_of`."""
        row = self.find_row(request, id)
        if text := request.GET.get("as_of"):
            row.rewind(time_parsing.parse_past(text, datetime.now(UTC)))
        return self.prepare_rows(request, [row])[0]

    def audit_target(self, row: Fact) -> str:
        return row.public_id

    def row_title(self, row: Fact) -> str:
        return Truncator(row.content).chars(90)

    # Actions.

    @action("Accept", audit="memory.change", is_available=lambda f: f.is_held)
    def accept(self, request: HttpRequest, row: Fact) -> Outcome:
        """Make a fact active that is pending review, or part of one that is known."""
        user_id = UserId(row.user_id)
        fact_id = candidates.accept(user_id, row.pk, by=ACTOR)
        if fact_id is None:
            raise candidates.why_undecided(user_id, row.pk)
        details = changed(row, True, "status").details
        stored = Fact.objects.get_known(user_id, fact_id)
        return Outcome(True, details, row=stored, target=row.public_id)

    @action(
        "Reject",
        audit="memory.delete",
        confirm="The facts are forgotten, with the messages that mention them.",
        is_dangerous=True,
        is_available=lambda fact: fact.is_held,
    )
    def reject(self, request: HttpRequest, row: Fact) -> Outcome:
        user_id = UserId(row.user_id)
        if not candidates.reject(user_id, row.pk, by=ACTOR):
            raise candidates.why_undecided(user_id, row.pk)
        return changed(row, True)

    @action("Pin", audit="memory.change", is_available=lambda f: f.can_be_pinned)
    def pin(self, request: HttpRequest, row: Fact) -> Outcome:
        return changed(row, row.pin(by=ACTOR), "is_pinned")

    @action("Unpin", audit="memory.change", is_available=lambda f: f.is_pinned)
    def unpin(self, request: HttpRequest, row: Fact) -> Outcome:
        return changed(row, row.unpin(by=ACTOR), "is_pinned")

    @action(
        "Send to review",
        audit="memory.change",
        is_available=lambda fact: fact.current_status == FactStatus.ACTIVE,
    )
    def review(self, request: HttpRequest, row: Fact) -> Outcome:
        return changed(row, row.send_to_review(by=ACTOR), "status")

    @action(
        "Restore",
        audit="memory.change",
        is_available=lambda fact: (
            not fact.is_held and fact.current_status != FactStatus.ACTIVE
        ),
    )
    def restore(self, request: HttpRequest, row: Fact) -> Outcome:
        return changed(row, row.restore(by=ACTOR, text=EMBEDDED_LATER), "status")

    @action(
        "Forget",
        audit="memory.delete",
        confirm="Prompts and searches no longer include it, nor the messages that "
        "mention it. They and its history are kept.",
        is_dangerous=True,
        is_available=lambda fact: (
            not fact.is_held and fact.status != FactStatus.DELETED
        ),
    )
    def forget(self, request: HttpRequest, row: Fact) -> Outcome:
        user_id = UserId(row.user_id)
        return changed(row, forgetting.forget(user_id, row.pk, by=ACTOR))

    @action(
        "Purge",
        audit="memory.delete",
        confirm="The fact, its history and the text of the messages that mention it, "
        "with their replies, are deleted. This cannot be undone.",
        is_dangerous=True,
        response=DeletedMemory,
    )
    def purge(self, request: HttpRequest, row: Fact) -> Outcome:
        forgetting.forget(UserId(row.user_id), row.pk, by=ACTOR, purge=True)
        details = {"user": str(row.user_id), "purge": True}
        gone = DeletedMemory(id=row.pk).model_dump(mode="json")
        return Outcome(True, details, target=row.public_id, data=gone)

    # Changes with a body.

    def create(self, request: HttpRequest, body: NewFact) -> Fact:
        """Save a fact of the user in the address, reconciled with the stored ones."""
        user_id = self.user_of(request)
        if user_id is None:
            raise Invalid("Name the user: POST /admin/users/{user}/facts")
        old = body.supersedes and public_ids.require_fact_id(body.supersedes)
        draft = body.to_fact_draft("operator", supersedes=old or None)
        vector = sync_search.embed_fact(body.content, body.category)
        with transaction.atomic():
            (saved,) = fact_store.save_drafts(
                user_id,
                [draft],
                [vector.embedded],
                by=ACTOR,
                threshold=query_preparation.dedup_threshold(),
                errors=[vector.error],
            )
            row: Any = Fact.objects.get_known(user_id, saved.fact_id)
            row.outcome, row.superseded = saved.outcome, saved.superseded
            details = {"user": str(user_id), "outcome": saved.outcome}
            self._record(request, "create", row, ADDITION, details)
        return row  # type: ignore[no-any-return]  # a fact with its outcome

    def created_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return self.serialize_row(row, SavedMemory)

    def created_message(self, row: Any) -> str:
        return OUTCOME_MESSAGES[row.outcome]

    def update(self, request: HttpRequest, row: Fact, body: FactChanges) -> Fact:
        """Make the changes of a form or a script."""
        changes = body.changes()
        if not changes:
            return row
        vector = sync_search.embed_changed_fact(row, changes)
        with transaction.atomic():
            if row.edit(changes, by=ACTOR, reason=body.reason, text=vector):
                details = changed(row, True, *changes).details
                self._record(request, "change", row, CHANGE, details)
        return row

    # Scripts.

    def serialize_row(self, row: Any, schema: Any) -> dict[str, Any]:
        if schema is FactWithHistory:
            row.history = load_history(row)
        data: dict[str, Any] = schema.model_validate(row).model_dump(mode="json")
        return data

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        """Return a page of facts, or the results of `?q=`."""
        page = super().list_data(request)  # Refuses unknown parameters.
        search = self._search(request, "facts")
        return search[0] if search else page

    # The pages.

    def get_list_display(self, request: HttpRequest) -> Sequence[str]:
        owner = [] if self.scope(request) else ["user"]
        return ["fact", *owner, "category", "importance", "source", "said_at"]

    def get_list_filter(self, request: HttpRequest | None) -> list[Any]:
        found = super().get_list_filter(request)
        is_of_all = request is not None and not self.scope(request)
        return found[:-1] if is_of_all else found

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        # A search needs the index of one user.
        return ["content"] if self.scope(request) else []

    def get_search_results(
        self, request: HttpRequest, queryset: Any, search_term: str
    ) -> tuple[Any, bool]:
        """Return no rows for a search, whose results `_search` returns."""
        return queryset.none() if search_term.strip() else queryset, False

    def _search(
        self, request: HttpRequest, scope: str
    ) -> tuple[dict[str, Any], SearchResult] | None:
        """Return the results of `?q=`, or None without it."""
        user_id = self.user_of(request)
        text = request.GET.get(SEARCH, "").strip()[:MAX_QUERY_LENGTH]
        if user_id is None or not text:
            return None
        category: Any = request.GET.get("category") or None
        where: Any = request.GET.get("in") or scope
        limit = query_int(request.GET, "limit", default=MAX_FOUND, maximum=100)
        found = sync_search.search_memory(
            user_id, text, scope=where, category=category, limit=limit
        )
        results = serializers.search_results(
            found.facts,
            found.messages,
            found.prepared,
            limit=len(found.facts) + len(found.messages),
            explain=True,
        )
        for each in results.data:
            each.content = redaction.redact_own(each.content)
        return results.model_dump(mode="json"), found

    def list_context(self, request: HttpRequest, page: Any) -> dict[str, Any]:
        is_on = memory_settings.resolve_for_users(live.current()) is not None
        user_id = self.user_of(request)
        if user_id is None:
            return {"is_on": is_on}
        context = {
            **user_context(user_id),
            "is_on": is_on,
            "may_create": self.has_add_permission(request),
            "categories": get_args(Category),
        }
        if search := self._search(request, "all"):
            context["found"], results = search
            block = sync_search.memory_prompt(user_id, results)
            context["recall_block"] = redaction.redact_own(block)
        return context

    def detail_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        context = user_context(row.user_id)
        crumbs = [*context["breadcrumbs"], ("Memory", f"{context['user_url']}/facts")]
        return {
            **context,
            "breadcrumbs": crumbs,
            "fact": MemoryObject.model_validate(row).model_dump(mode="json"),
            "history": [
                MemoryChange.model_validate(step).model_dump(mode="json")
                for step in load_history(row)
            ],
            "categories": get_args(Category),
            "as_of": request.GET.get("as_of", ""),
        }

    # Columns.

    @column("Fact", css="long identity")
    def fact(self, row: Fact) -> Any:
        badges = [("is-accent", "pinned")] if row.is_pinned else []
        if (status := row.current_status) != FactStatus.ACTIVE:
            badges.append(("is-warn", status.replace("_", " ")))
        if row.held_for:
            badges.append(("", row.get_held_for_display()))
        badge = ' <span class="badge {}">{}</span>'
        shown = Truncator(row.content).chars(300)
        return format_html("{}{}", shown, format_html_join("", badge, badges))

    @column("Message")
    def said(self, row: Fact) -> Any:
        messages = StoredMessage.objects.select_related("thread")
        source = messages.filter(pk=row.message_id or 0).first()
        if source is None:
            return NO_VALUE
        query = {"thread": source.thread.name, "before": source.position + 20}
        address = f"{user_address(row.user_id)}?{urlencode(query)}#m{source.position}"
        return link(address, "View in conversation")

    @column("Superseded by")
    def newer(self, row: Fact) -> Any:
        return link_fact(row, row.superseded_by_id)

    @column("Contradicts")
    def contradicted(self, row: Fact) -> Any:
        return link_fact(row, row.replaces_id if row.is_held else None)


def link_fact(row: Fact, fact_id: UUID | None) -> Any:
    """Return a link to another fact of the same user."""
    if fact_id is None:
        return NO_VALUE
    name = public_ids.format_fact_id(fact_id)
    return link(f"{user_address(row.user_id)}/facts/{name}", "another fact")


def user_address(user_id: UUID) -> str:
    return f"/admin/users/{user_id}"


def user_context(user_id: UserId) -> dict[str, Any]:
    """Return the context of pages about a user; raises `UserUnknown`."""
    rows = (model.objects.filter(user_id=user_id) for model in (Owner, Thread, Turn))
    if not any(each.exists() for each in rows):
        raise UserUnknown
    name = user_lookup.load_names(live.current()).get(user_id)
    address = user_address(user_id)
    return {
        "user_url": address,
        "lead": f"of {name or user_id}",
        "breadcrumbs": [("Users", "/admin/users"), (name or str(user_id)[:8], address)],
    }


def load_history(row: Fact) -> list[Any]:
    """Return the steps of a fact's history, oldest first, without our own secrets."""
    steps = row.changes.order_by("at", "id")
    if row.viewed_at is not None:
        steps = steps.filter(at__lte=row.viewed_at)
    return [redact_row(step) for step in steps]


def changed(row: Fact, is_changed: bool, *fields: str) -> Outcome:
    """Return the outcome of a change, with its details for the audit."""
    details = {"user": str(row.user_id), **({"fields": [*fields]} if fields else {})}
    return Outcome(is_changed, details, target=row.public_id)
