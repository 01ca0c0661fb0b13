"""Retries of failed judging, and the scoring of past replies."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BaseModel
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log
from access.audit.audit_events import AuditEvent
from config import live
from config.validation.named_lists import get_by_name
from core.text import time_parsing
from judges.config import JUDGES, JudgeConfig
from judges.errors import JudgeUnknown
from judges.models import JudgeTask
from judges.runs import past_replies
from judges.runs.past_replies import JudgingBacklog
from judges.schemas import BackfillEstimate, PastRepliesRequest
from studio.base.views import StudioView
from telemetry.presentation import turn_serializers

JUDGES_URL = "/admin/judges"


class RetriedJudging(BaseModel):
    """The number of retried tasks."""

    judge: str
    retried: int


class JudgeView(StudioView):
    """A page of one judge."""

    subject = ""
    """The title of the page, before the judge's name."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Find the judge; raises `JudgeUnknown`."""
        name = kwargs["name"]
        self.judge_url = f"{JUDGES_URL}/{quote(name, safe='')}"
        self.breadcrumbs = [("Judges", JUDGES_URL), (name, self.judge_url)]
        self.title = f"{self.subject} {name}"
        super().initial(request, *args, **kwargs)
        judges = live.current().get(JUDGES)
        self.judge = get_by_name(name, judges, noun="judge", unknown=JudgeUnknown)

    def audit_event(self, action: str, noun: str, count: int) -> AuditEvent | None:
        """Return the event of a change of several tasks; None for zero."""
        if not count:
            return None
        return AuditEvent(action, self.actor(), self.kwargs["name"], {noun: count})


class RetryJudgingView(JudgeView):
    """`/admin/judges/{name}/retry`."""

    @extend_schema(
        summary="Retry the failed tasks of a judge",
        request=None,
        responses={202: RetriedJudging},
    )
    def post(self, request: Request, name: str) -> HttpResponseBase:
        """Retry up to 1,000 replies that the judge failed to score."""
        count = audit_log.run_recorded(
            lambda count: self.audit_event("judge.retry", "tasks", count),
            JudgeTask.objects.failed_of([name]).retry_newest,
        )
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
        if self.wants_html and not request.query_params:
            defaults = PastRepliesRequest.model_validate({}).model_dump()
            return self.respond(None, page=lambda: self._form_context(defaults))
        query = self.parse_query(PastRepliesRequest)
        _, estimate = self._estimate(query)
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
        backlog, estimate = self._estimate(self.parse_body(PastRepliesRequest))
        tasks = audit_log.run_recorded(
            lambda rows: self.audit_event("judge.backfill", "replies", len(rows)),
            past_replies.enqueue,
            name,
            backlog.pending,
        )
        replies = "reply" if len(tasks) == 1 else "replies"
        return self.confirm_change(
            {**estimate, "queued": len(tasks)},
            message=f"{len(tasks)} {replies} queued for scoring",
            redirect_to=self.judge_url,
            status=202,
        )

    def _estimate(
        self, query: PastRepliesRequest
    ) -> tuple[JudgingBacklog, dict[str, Any]]:
        """Return the replies that a request selects, and the cost of scoring them."""
        backlog = past_replies.find_backlog(
            self.judge.name,
            past_replies.judged_agents(live.current(), self.judge, query.agent),
            since=time_parsing.parse_past(query.since, datetime.now(UTC)),
            share=query.sample,
            limit=query.limit,
        )
        return backlog, serialize_estimate(self.judge, backlog)

    def refused_form_context(self) -> Mapping[str, Any]:
        """Return the form with the submitted values."""
        return self._form_context(self.body_data())

    def _form_context(self, form: Mapping[str, Any]) -> dict[str, Any]:
        name = self.kwargs["name"]
        return {
            "form_data": form,
            "agents": past_replies.agents_naming(live.current(), name),
        }


def serialize_estimate(judge: JudgeConfig, backlog: JudgingBacklog) -> dict[str, Any]:
    estimate = past_replies.estimate_cost(live.current(), judge, backlog.pending)
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
