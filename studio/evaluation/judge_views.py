"""The scores of judges, retries of failures, and the scoring of past replies."""

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
    run_id: UUID | None = Field(description="The smoke run that was scored, if any.")
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

    since: str = Field("7d", description="`24h`, `7d` or `2026-11-01`.")
    sample: float = Field(1.0, gt=0, le=1, description="The share of the replies.")
    limit: int = Field(
        100, ge=1, le=1_000, description="The largest number of replies, newest first."
    )
    agent: str | None = Field(
        None, description="The agent; by default, all agents that name the judge."
    )


class BackfillEstimate(BaseModel):
    """The number of replies to score, and the approximate cost."""

    judge: str
    found: int = Field(description="The sum of the next five.")
    judged: int = Field(description="Replies that have scores.")
    in_progress: int = Field(description="Queued or running.")
    skipped: int = Field(description="Skipped or cancelled.")
    failed: int
    pending: int = Field(description="Replies to score.")
    tokens: int
    cost_usd: float | None = Field(description="null if the model has no price.")
    queued: int = Field(0, description="Replies that this request queued.")


class JudgeView(StudioView):
    """A page of one judge."""

    subject = ""
    """The title of the page, before the judge's name."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Set the breadcrumbs to the judge."""
        name = kwargs["name"]
        self.judge_url = f"{JUDGES_URL}/{quote(name, safe='')}"
        self.breadcrumbs = [("Judges", JUDGES_URL), (name, self.judge_url)]
        self.title = f"{self.subject} {name}"
        super().initial(request, *args, **kwargs)

    def audit_event(self, action: str, noun: str, count: int) -> AuditEvent | None:
        """Return the event of a change of several tasks; None for zero."""
        if not count:
            return None
        return AuditEvent(action, self.actor(), self.kwargs["name"], {noun: count})


class JudgeScoresView(JudgeView):
    """`/admin/judges/{name}/scores`."""

    subject = "Scores of"
    template = "studio/judges/scores.html"

    @extend_schema(
        summary="List the scores of a judge",
        parameters=[
            OpenApiParameter("criterion", str),
            OpenApiParameter("agent", str),
            OpenApiParameter("max", int, description="The highest score, 0 to 10."),
            OpenApiParameter("after", str, description="The last_id of a page."),
        ],
        responses=JudgeScoreList,
    )
    def get(self, request: Request, name: str) -> Response:
        """List scores with their reasoning, newest first."""
        query = request.query_params
        has_max = bool(query.get("max"))
        rows, has_more = score_windows.page_judge_scores(
            name,
            criterion=query.get("criterion") or None,
            agent=query.get("agent") or None,
            max_score=self.query_int("max", default=10, minimum=0, maximum=10)
            if has_max
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
        summary="Retry the failed tasks of a judge",
        request=None,
        responses={202: RetriedJudging},
    )
    def post(self, request: Request, name: str) -> HttpResponseBase:
        """Retry up to 1,000 replies that the judge failed to score."""
        _find_judge(name)
        count = audit_log.run_recorded(
            lambda count: self.audit_event("judge.retry", "tasks", count),
            task_status.retry_failed,
            name,
        )
        worker_notifier.notify()
        tasks = "task" if count == 1 else "tasks"
        return self.confirm_change(
            {"judge": name, "retried": count},
            message=f"{count} {tasks} queued again" if count else "No task has failed",
            redirect_to=self.judge_url,
            status=202,
        )


class PastRepliesView(JudgeView):
    """`/admin/judges/{name}/past-replies`."""

    subject = "Past replies for"
    template = "studio/judges/past_replies.html"

    @extend_schema(
        summary="Estimate the scoring of past replies",
        parameters=[
            OpenApiParameter("since", str, description="By default `7d`."),
            OpenApiParameter("sample", float, description="By default 1."),
            OpenApiParameter("limit", int, description="By default 100."),
            OpenApiParameter("agent", str),
        ],
        responses=BackfillEstimate,
    )
    def get(self, request: Request, name: str) -> Response:
        """Count past replies without a score, and estimate the cost of scoring them."""
        judge = _find_judge(name)
        if self.wants_html and not request.query_params:
            defaults = PastRepliesRequest.model_validate({}).model_dump()
            return self.respond(None, page=lambda: self._form_context(defaults))
        query = self.parse_query(PastRepliesRequest)
        backlog = _find_backlog(judge, query)
        estimate = serialize_estimate(judge, backlog)
        form = query.model_dump()
        return self.respond(
            estimate, page=lambda: {"estimate": estimate, **self._form_context(form)}
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
        backlog = _find_backlog(judge, self.parse_body(PastRepliesRequest))
        estimate = serialize_estimate(judge, backlog)
        tasks = audit_log.run_recorded(
            lambda rows: self.audit_event("judge.backfill", "replies", len(rows)),
            backfill.enqueue_judging,
            judge,
            backlog,
        )
        worker_notifier.notify()
        replies = "reply" if len(tasks) == 1 else "replies"
        return self.confirm_change(
            {**estimate, "queued": len(tasks)},
            message=f"{len(tasks)} {replies} queued for scoring",
            redirect_to=self.judge_url,
            status=202,
        )

    def refused_form_context(self) -> Mapping[str, Any]:
        """Return the form with the submitted values."""
        return self._form_context(self.body_data())

    def _form_context(self, form: Mapping[str, Any]) -> dict[str, Any]:
        name = self.kwargs["name"]
        return {
            "form_data": form,
            "agents": backfill.agents_naming(live.current(), name),
        }


def _find_judge(name: str) -> JudgeConfig:
    """Return a judge by its name; raises `JudgeUnknown`."""
    judges = live.current().get(JUDGES)
    return get_by_name(name, judges, noun="judge", unknown=JudgeUnknown)


def _find_backlog(judge: JudgeConfig, request: PastRepliesRequest) -> JudgingBacklog:
    since = time_parsing.parse_past(request.since, datetime.now(UTC))
    selection = BackfillRequest(
        since, request.sample, request.limit, request.agent or None
    )
    return backfill.find_replies(live.current(), judge, selection)


def serialize_estimate(judge: JudgeConfig, backlog: JudgingBacklog) -> dict[str, Any]:
    """Return a backlog and the cost of scoring it as JSON."""
    estimate = backfill.estimate_cost(live.current(), judge, backlog)
    return {
        "judge": judge.name,
        "found": backlog.found,
        "judged": backlog.judged,
        "in_progress": len(backlog.in_progress),
        "skipped": backlog.skipped,
        "failed": len(backlog.failed),
        "pending": len(backlog.pending),
        "tokens": estimate.tokens,
        "cost_usd": turn_serializers.to_usd(estimate.micro_usd),
        "queued": 0,
    }
