"""Judges' work: their scores, retries of failures, and scoring of past replies."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BaseModel, ConfigDict, Field
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log
from access.audit.audit_events import AuditEvent
from config import live
from config.overrides import overridable_entries
from config.validation.named_lists import get_by_name
from core.errors import NotFound
from core.text import time_parsing
from judges.config import JUDGES, JudgeConfig
from judges.ratings import score_windows
from judges.runs import backfill, task_status
from judges.runs.backfill import BackfillRequest
from judges.runs.past_replies import JudgingBacklog
from studio.base.pagination import parse_cursor, serialize_page
from studio.base.views import StudioView
from studio.evaluation import judge_details
from tasks.queue import worker_notifier
from telemetry.presentation import turn_serializers

JUDGES_URL = "/admin/judges"
PAGE_SIZE = 50


class JudgeUnknown(NotFound):
    """There is no such judge."""

    code = "judge_not_found"


class JudgeScore(BaseModel):
    """A judge's score of a reply by one criterion."""

    turn_id: UUID
    run_id: UUID | None = Field(description="The run of a smoke test it was given in.")
    user_id: UUID
    criterion: str
    value: int
    reasoning: str | None
    agent: str
    experiment: str | None
    origin: Literal["chat", "task", "smoke", "shadow"]
    judged_at: datetime


class JudgeScoreList(BaseModel):
    """A page of scores, newest first."""

    object: Literal["list"] = "list"
    data: list[JudgeScore]
    has_more: bool
    last_id: str | None


class RetriedJudging(BaseModel):
    """The number of retried tasks."""

    judge: str
    retried: int


class PastRepliesRequest(BaseModel):
    """The selection of past replies to score."""

    model_config = ConfigDict(extra="forbid")

    since: str = Field("7d", description="How far back: `24h`, `7d`, `2026-11-01`.")
    sample: float = Field(1.0, gt=0, le=1, description="Which share of the replies.")
    limit: int = Field(100, ge=1, le=1_000, description="The newest so many at most.")
    agent: str | None = Field(
        None, description="Only this agent's; all that name the judge, if left out."
    )


class BackfillEstimate(BaseModel):
    """The number of replies to score, and the approximate cost."""

    judge: str
    found: int
    judged: int = Field(description="They have scores already.")
    under_way: int = Field(description="Queued or running.")
    skipped: int
    failed: int
    to_judge: int
    tokens: int
    cost_usd: float | None = Field(description="null where nobody knows the price.")
    added: int = Field(0, description="Put into the queue by this request.")


class JudgeView(StudioView):
    """An address about one judge."""

    about = ""
    """The page's subtitle."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Set the breadcrumbs to the judge."""
        name = kwargs["name"]
        self.place = f"{JUDGES_URL}/{quote(name, safe='')}"
        self.breadcrumbs = [("Judges", JUDGES_URL), (name, self.place)]
        self.title = f"{self.about} {name}"
        super().initial(request, *args, **kwargs)

    def audit_event(self, action: str, what: str, count: int) -> AuditEvent | None:
        """Return the event of a change of so many tasks; None for zero."""
        if not count:
            return None
        return AuditEvent(action, self.actor(), self.kwargs["name"], {what: count})


class JudgeScoresView(JudgeView):
    """`/admin/judges/{name}/scores`."""

    about = "Scores of"
    template = "studio/judges/scores.html"

    @extend_schema(
        summary="List what a judge gave",
        parameters=[
            OpenApiParameter("criterion", str),
            OpenApiParameter("agent", str),
            OpenApiParameter("most", int, description="None that are higher."),
            OpenApiParameter("after", str, description="The last_id of a page."),
        ],
        responses=JudgeScoreList,
    )
    def get(self, request: Request, name: str) -> Response:
        """List scores with their reasoning, newest first."""
        query = request.query_params
        has_most = bool(query.get("most"))
        rows, has_more = score_windows.page_scores(
            name,
            criterion=query.get("criterion") or None,
            agent=query.get("agent") or None,
            max_score=self.query_int("most", default=10, least=0, most=10)
            if has_most
            else None,
            after=parse_cursor(query.get("after"), int),
            limit=PAGE_SIZE,
        )
        if not rows and not query:
            # A deleted judge still has scores.
            overridable_entries.get_entry(JUDGES, name)
        last = (rows[-1].judged_at, rows[-1].pk) if rows else None
        return self.respond(
            serialize_page(
                judge_details.serialize_scores(rows), has_more=has_more, last=last
            ),
            page=lambda: self._page_context(name),
        )

    def _page_context(self, name: str) -> Mapping[str, Any]:
        config = live.current()
        judge = config.get(JUDGES).get(name)
        return {
            "criteria": [] if judge is None else list(judge.rubrics),
            "agents": backfill.agents_naming(config, name),
            "values": range(10),
        }


class RetryJudgingView(JudgeView):
    """`/admin/judges/{name}/retry`."""

    @extend_schema(
        summary="Try again what a judge failed to score",
        request=None,
        responses={202: RetriedJudging},
    )
    def post(self, request: Request, name: str) -> HttpResponseBase:
        """Retry all replies that the judge failed to score; 1,000 at once at most."""
        _find_judge(name)
        count = audit_log.run_recorded(
            lambda count: self.audit_event("judge.retry", "tasks", count),
            task_status.retry_failed,
            name,
        )
        worker_notifier.notify()
        told = {"judge": name, "retried": count}
        said = f"{count} tried again" if count else "Nothing has failed"
        return self.confirm_change(
            told, message=said, redirect_to=self.place, status=202
        )


class PastRepliesView(JudgeView):
    """`/admin/judges/{name}/past`."""

    about = "Past replies for"
    template = "studio/judges/past_replies.html"

    @extend_schema(
        summary="Reckon what it takes to score past replies",
        parameters=[
            OpenApiParameter("since", str, description="`7d` unless given."),
            OpenApiParameter("sample", float, description="1 unless given."),
            OpenApiParameter("limit", int, description="100 unless given."),
            OpenApiParameter("agent", str),
        ],
        responses=BackfillEstimate,
    )
    def get(self, request: Request, name: str) -> Response:
        """Count past replies without a score, and estimate the cost of scoring them."""
        judge = _find_judge(name)
        if self.wants_html and not request.query_params:
            empty = PastRepliesRequest.model_validate({}).model_dump()
            return self.respond(None, page=lambda: self._form_context(empty))
        wanted = self.parse_query(PastRepliesRequest)
        told = serialize_estimate(
            judge,
            backfill.find_replies(live.current(), judge, _backfill_request(wanted)),
        )
        typed = wanted.model_dump()
        return self.respond(
            told, page=lambda: {"reckoned": told, **self._form_context(typed)}
        )

    @extend_schema(
        operation_id="judges_score_past",
        summary="Score past replies",
        request=PastRepliesRequest,
        responses={202: BackfillEstimate},
    )
    def post(self, request: Request, name: str) -> HttpResponseBase:
        """Queue past replies for scoring, at low priority."""
        judge = _find_judge(name)
        found = backfill.find_replies(
            live.current(),
            judge,
            _backfill_request(self.parse_body(PastRepliesRequest)),
        )
        told = serialize_estimate(judge, found)
        added = audit_log.run_recorded(
            lambda rows: self.audit_event("judge.past", "replies", len(rows)),
            backfill.enqueue_judging,
            judge,
            found,
        )
        worker_notifier.notify()
        told["added"] = len(added)
        said = f"{len(added)} repl{'y' if len(added) == 1 else 'ies'} to be scored"
        return self.confirm_change(
            told, message=said, redirect_to=self.place, status=202
        )

    def refused_form_context(self) -> Mapping[str, Any]:
        """Return the form with the submitted values."""
        return self._form_context(self.body_data())

    def _form_context(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        name = self.kwargs["name"]
        return {
            "form_data": typed,
            "agents": backfill.agents_naming(live.current(), name),
        }


def _find_judge(name: str) -> JudgeConfig:
    """Return a judge by its name; raises `JudgeUnknown`."""
    known = live.current().get(JUDGES)
    return get_by_name(name, known, noun="judge", unknown=JudgeUnknown)


def _backfill_request(asked: PastRepliesRequest) -> BackfillRequest:
    since = time_parsing.parse_past(asked.since, datetime.now(UTC))
    return BackfillRequest(since, asked.sample, asked.limit, asked.agent or None)


def serialize_estimate(judge: JudgeConfig, found: JudgingBacklog) -> dict[str, Any]:
    """Return the estimate as JSON."""
    takes = backfill.estimate_cost(live.current(), judge, found)
    return {
        "judge": judge.name,
        "found": found.found,
        "judged": found.judged,
        "under_way": len(found.in_progress),
        "skipped": found.skipped,
        "failed": len(found.failed),
        "to_judge": len(found.pending),
        "tokens": takes.tokens,
        "cost_usd": turn_serializers.to_usd(takes.micro_usd),
        "added": 0,
    }
