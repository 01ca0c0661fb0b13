"""Scores and feedback in the studio; `studio.admin` registers scores, with runs."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html

from access.users import identity
from access.users.filters import UserFilter
from access.users.model_admin import UserRowsAdmin
from admin_base.actions import Outcome, action
from admin_base.columns import column, link
from admin_base.filters import ChoiceFilter, ExactFilter, FlagFilter, TimeFilter
from config import live
from config.overrides import overridable_entries
from core.ids import TurnId, UserId
from judges.config import JUDGES
from judges.models import Feedback, Score
from judges.ratings.statistics import score_tone
from judges.runs import past_replies
from judges.runs.past_replies import PastReply
from judges.schemas import StudioFeedback, StudioScore
from telemetry.admin import AgentFilter
from telemetry.models.choices import USER_ORIGINS

SCALE = [str(each) for each in range(11)]


class JudgeFilter(ExactFilter):
    """Scores of a judge; the configured ones are suggested."""

    def suggestions(self) -> Sequence[str]:
        judges = live.current().get(JUDGES)
        return list(judges)


class CommentFilter(FlagFilter):
    """Feedback with a comment."""

    def apply_flag(self, queryset: Any, is_on: bool) -> Any:
        return queryset.exclude(comment="") if is_on else queryset


class RatingAdmin(UserRowsAdmin):
    """What judges or users say of replies."""

    list_template = "studio/users/ratings.html"
    tab = "scores"

    def list_context(self, request: HttpRequest, page: Any) -> dict[str, Any]:
        context = super().list_context(request, page)
        if user := self.filter_value(request, "user"):
            rows = Score.objects.filter(user_id=identity.derive_user_id(user))
            context["means"] = rows.means()
        return context

    @column("Agent", css="is-wide")
    def agent_shown(self, row: Any) -> Any:
        shown = format_html("{}", row.agent)
        if row.experiment:
            shown += format_html(' <span class="badge">{}</span>', row.experiment)
        return shown

    @column("Reply")
    def reply(self, row: Any) -> Any:
        return link(f"/admin/turns/{row.turn_id}", "View turn")


class ScoreAdmin(RatingAdmin):
    """The scores of judges."""

    path = "scores"
    title = "Scores"
    icon = "grade"
    links = (("Feedback", "/admin/feedback"),)
    list_display = [
        "value_shown",
        "reasoning",
        "agent_shown",
        "user",
        "reply",
        "judged_at",
    ]
    column_classes = {"reasoning": "long"}
    list_filter = [
        TimeFilter.of("judged_at"),
        JudgeFilter.of("judge"),
        ExactFilter.of("criterion"),
        AgentFilter.of("agent"),
        UserFilter,
        ExactFilter.of("experiment"),
        "origin",
        ChoiceFilter.of("min", field="value__gte", options=SCALE, title="Lowest score"),
        ChoiceFilter.of(
            "max", field="value__lte", options=SCALE, title="Highest score"
        ),
    ]
    ordering = ["-judged_at"]
    schema = StudioScore
    actions = ["judge"]
    empty_text = "Judges score replies of the agents that list them."

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        judge = self.scope(request).get("judge")
        # A deleted judge still has scores.
        if judge and not Score.objects.filter(judge=judge).exists():
            overridable_entries.get_entry(JUDGES, judge)
        return super().get_changelist_instance(request)

    @action(
        "Judge again",
        audit="score.judge",
        is_available=lambda score: score.origin in USER_ORIGINS,
    )
    def judge(self, request: HttpRequest, row: Score) -> Outcome:
        """Queue the reply for the judge; the new scores replace these."""
        reply = PastReply(TurnId(row.turn_id), UserId(row.user_id), row.agent)
        count = past_replies.judge_again(reply, [row.judge])
        message = "Queued" if count else "It is already queued"
        return Outcome(bool(count), {"judge": row.judge}, message)

    @column("Score")
    def value_shown(self, row: Score) -> Any:
        text = '<span class="badge {}">{}</span> {}.{}'
        return format_html(
            text, score_tone(row.value), row.value, row.judge, row.criterion
        )


@admin.register(Feedback)
class FeedbackAdmin(RatingAdmin):
    """The feedback of users, which clients send to `/v1/feedback`."""

    path = "feedback"
    title = "Feedback"
    icon = "thumbs_up_down"
    links = (("Scores", "/admin/scores"),)
    list_display = ["rating", "comment", "agent_shown", "user", "reply", "created_at"]
    column_classes = {"comment": "long"}
    list_filter = [
        TimeFilter.of("created_at"),
        AgentFilter.of("agent"),
        UserFilter,
        "thumb",
        ChoiceFilter.of("min", field="score__gte", options=SCALE, title="Lowest score"),
        ChoiceFilter.of(
            "max", field="score__lte", options=SCALE, title="Highest score"
        ),
        CommentFilter.of("comment", title="With a comment"),
    ]
    ordering = ["-created_at"]
    schema = StudioFeedback
    empty_text = "Clients send feedback to /v1/feedback."

    @column("Rating")
    def rating(self, row: Feedback) -> str:
        return f"thumb {row.thumb}" if row.thumb else f"{row.score} of 10"
