"""Tables whose pages join the rows of several apps."""

from datetime import timedelta
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

from django.contrib import admin
from django.http import HttpRequest
from django.urls import path
from pydantic import Field

from access.users import identity
from admin_base.actions import Outcome, action
from admin_base.columns import link
from admin_base.model_admin import redact_row
from admin_base.serializers import Schema, serialize
from agents.config import AGENTS
from config import live
from core.ids import UserId
from core.text import redaction
from judges.admin import ScoreAdmin
from judges.models import Feedback, Score
from judges.runs import past_replies
from judges.runs.past_replies import PastReply
from judges.schemas import StudioFeedback
from memory.admin.user_schemas import UserSummary
from memory.admin.users import EndUserAdmin
from memory.extraction import extraction_tasks
from memory.models import EndUser, StoredMessage, Thread
from studio.configuration import tables  # noqa: F401  # registers them
from studio.conversations import conversation, user_messages
from studio.conversations.schemas import (
    FactSummary,
    MeanScore,
    ScoreList,
    TurnExtraction,
    TurnFeedback,
    TurnScore,
)
from studio.evaluation import judge_details
from telemetry import models
from telemetry.admin import TONES, TurnAdmin
from telemetry.config import TELEMETRY
from telemetry.models import Turn
from telemetry.schemas import StudioTurn

MAX_FEEDBACK = 20
THREADS_SHOWN = 12


class JudgedTurn(StudioTurn):
    """A turn with its recalled facts, and the feedback of judges and its user."""

    recalled_facts: list[FactSummary] = Field(
        description="The recalled facts in their current state, without deleted ones."
    )
    scores: list[TurnScore]
    feedback: TurnFeedback | None
    extraction: TurnExtraction | None = Field(
        description="Null if no facts were to be extracted, or the task is deleted."
    )


@admin.register(Turn)
class JudgedTurnAdmin(TurnAdmin):
    """Turns, with their recalled facts, replies, scores and feedback."""

    schema: ClassVar[Schema | None] = JudgedTurn
    actions = ["judge"]
    tab = "turns"
    list_template = "studio/turns/list.html"
    detail_template = "studio/turns/detail.html"
    detail_parameters = {"fragment": "The page has only the tree of calls."}

    @action(
        "Judge again",
        audit="turn.judge",
        is_available=lambda turn: turn.outcome == models.Outcome.OK,
    )
    def judge(self, request: HttpRequest, row: Turn) -> Outcome:
        agent = live.current().get(AGENTS).get(row.agent)
        reply = PastReply(row.turn_id, UserId(row.user_id), row.agent)
        count = past_replies.judge_again(reply, agent.judges if agent else ())
        judges = "judge" if count == 1 else "judges"
        message = f"Queued for {count} {judges}" if count else "It is already queued"
        return Outcome(bool(count), {"judges": count}, message)

    def serialize_row(self, row: Turn, schema: Schema) -> dict[str, Any]:
        if schema is not self.row_schema:
            _load_ratings(row)
        return super().serialize_row(row, schema)

    # The pages.

    def list_context(self, request: HttpRequest, page: Any) -> dict[str, Any]:
        is_recorded = live.current().get(TELEMETRY).sqlite.enabled
        return {**super().list_context(request, page), "is_recorded": is_recorded}

    def get_detail_template(self, request: HttpRequest) -> str:
        is_fragment = bool(request.GET.get("fragment"))
        return "studio/turns/_tree.html" if is_fragment else self.detail_template

    def detail_context(self, request: HttpRequest, row: Turn) -> dict[str, Any]:
        reply = StoredMessage.objects.find_reply(row.user_id, row.turn_id)
        query = {"thread": row.thread}
        if reply is not None:
            query["before"] = str(reply.position + 1)
        _load_ratings(row)
        return {
            "recalled_facts": row.recalled_facts,  # type: ignore[attr-defined]
            "scores": row.scores,  # type: ignore[attr-defined]
            "feedback": row.feedback,  # type: ignore[attr-defined]
            "extraction": row.extraction,  # type: ignore[attr-defined]
            "tone": TONES[models.Outcome(row.outcome)],
            "reply": "" if reply is None else redaction.redact_own(reply.text),
            "conversation": f"/admin/users/{row.user_id}?{urlencode(query)}",
            "playground": f"/admin/playground?agent={quote(row.agent, safe='')}",
            "permalink": request.build_absolute_uri(self.row_address(row)),
        }


@admin.register(Score)
class LinkedScoreAdmin(ScoreAdmin):
    """Scores, with the smoke runs that they are of; those of a user with feedback."""

    parent_paths = {
        "users/<str:user>/scores": ScoreList,
        "judges/<path:judge>/scores": None,
    }

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        page = super().list_data(request)
        if not (user := self.scope(request).get("user")):
            return page
        rows = {"user_id": identity.derive_user_id(user)}
        feedback = Feedback.objects.filter(**rows).order_by("-updated_at", "-id")
        newest = map(redact_row, feedback[:MAX_FEEDBACK])
        return {
            **page,
            "means": Score.objects.filter(**rows).means(),
            "feedback": [serialize(StudioFeedback, row) for row in newest],
        }

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> list[Any]:
        return judge_details.link_smoke_runs(super().prepare_rows(request, rows))

    def reply(self, row: Any) -> Any:
        if row.run_id is None:
            return super().reply(row)
        return link(f"/admin/smoke/runs/{row.run_id}", "View run")

    reply.short_description = "Reply"  # type: ignore[attr-defined]  # as in @column


def _load_ratings(turn: Any) -> None:
    """Set the recalled facts and the feedback of a turn."""
    rated = Feedback.objects.filter(user_id=turn.user_id, turn_id=turn.pk)
    turn.recalled_facts = conversation.recalled_facts(turn)
    turn.scores = Score.objects.of_turns([turn.pk])
    turn.feedback = rated.first()
    ended_at = turn.started_at + timedelta(seconds=turn.seconds)
    turn.extraction = extraction_tasks.find_extraction(
        turn.user_id, turn.pk, turn.started_at, ended_at
    )


class RatedUser(UserSummary):
    """The summary of a user, with the mean scores of the replies to them."""

    scores: list[MeanScore]


@admin.register(EndUser)
class RatedUserAdmin(EndUserAdmin):
    """Users, with their conversations."""

    schema: ClassVar[Schema | None] = RatedUser
    detail_template = "studio/users/conversation.html"
    detail_parameters = {
        "thread": "The page shows this `thread_id`; empty for the default thread.",
        "before": "The page shows the messages before this position.",
    }

    def extra_urls(self) -> list[Any]:
        messages = user_messages.MessageListView.as_view(model_admin=self)
        return [*super().extra_urls(), path("/<str:id>/messages", messages)]

    def get_row(self, request: HttpRequest, id: str) -> EndUser:
        row = super().get_row(request, id)
        row.scores = Score.objects.filter(user_id=row.pk).means()
        return row

    def detail_context(self, request: HttpRequest, row: EndUser) -> dict[str, Any]:
        threads = Thread.objects.filter(user_id=row.pk).recently_active()
        found = list(threads[: THREADS_SHOWN + 1])
        shown = user_messages.load(
            request, row.user_id, newest=found[0] if found else None
        )
        return {
            "profile": row,
            "user_url": self.row_address(row),
            "lead": str(row.pk) if row.name else "",
            "tab": "conversation",
            "conversation": shown,
            "thread": shown.thread,
            "threads": found[:THREADS_SHOWN],
            "has_more_threads": len(found) > THREADS_SHOWN,
        }
