"""Smoke tests at work: launched, watched line by line, cancelled, compared."""

import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log
from access.audit.audit_events import Deed
from config import live
from config.overrides import override_editor
from config.validation.named_lists import called
from smoke.config import SMOKE_TESTS, SmokeTest
from smoke.errors import SmokeTestUnknown
from smoke.evaluation import verdicts
from smoke.execution import run_lifecycle
from smoke.models import Run
from smoke.reports import run_queries, serializers
from studio.base.pagination import listed, place
from studio.base.views import Face
from studio.evaluation import smoke_details, smoke_schemas
from tasks.queue import worker_notifier

PLACE = "/admin/smoke"
RUNS = f"{PLACE}/runs"
BATCHES = 20
AFTER = OpenApiParameter("after", str, description="The last_id of a page.")


class AllRuns(Face):
    """`/admin/smoke/runs`."""

    title = "Runs"
    breadcrumbs = [("Smoke tests", PLACE)]
    template = "studio/smoke/runs.html"

    @extend_schema(
        summary="List the runs of all smoke tests",
        parameters=[AFTER],
        responses=smoke_schemas.BatchList,
    )
    def get(self, request: Request) -> Response:
        """List what was launched, the newest first."""
        return self.respond(page(self))


class TestRuns(Face):
    """`/admin/smoke/{name}/runs`."""

    template = "studio/smoke/runs.html"

    @extend_schema(
        operation_id="smoke_test_runs_list",
        summary="List the runs of a smoke test",
        parameters=[AFTER],
        responses=smoke_schemas.BatchList,
    )
    def get(self, request: Request, name: str) -> Response:
        """List what was launched of one test, the newest first."""
        self._set_breadcrumbs(name)
        found = page(self, name)
        if not found["data"] and not request.query_params:
            override_editor.find(SMOKE_TESTS, name)  # One that was deleted has runs.
        return self.respond(found, page=lambda: {"test": name})

    @extend_schema(
        operation_id="smoke_run",
        summary="Run a smoke test",
        request=smoke_schemas.Launch,
        responses={202: smoke_schemas.Batch},
    )
    def post(self, request: Request, name: str) -> HttpResponseBase:
        """Launch a test; a worker holds its conversations, each on its own."""
        self._set_breadcrumbs(name)
        test, wanted = _test_of(name), self.parse_body(smoke_schemas.Launch)
        launched = audit_log.recorded(
            lambda made: Deed(
                "smoke_test.run", self.actor(), name, {"repetitions": len(made)}
            ),
            run_lifecycle.launch,
            test,
            origin="studio",
            repetitions=wanted.repetitions,
        )
        worker_notifier.soon()
        answer = self.confirm_change(
            smoke_details.summary(launched),
            said=f"Launched '{name}'",
            to=f"{RUNS}/{launched[0].pk}",
            status=202,
        )
        if not self.wants_html:
            answer["Location"] = f"{RUNS}/{launched[0].pk}"
        return answer

    def refused_form_context(self) -> Mapping[str, Any]:
        """Return the runs there are."""
        return page(self, self.kwargs["name"])

    def _set_breadcrumbs(self, name: str) -> None:
        self.title = f"Runs of {name}"
        address = f"{PLACE}/{quote(name, safe='')}"
        self.breadcrumbs = [("Smoke tests", PLACE), (name, address)]


class OneRun(Face):
    """`/admin/smoke/runs/{id}`."""

    template = "studio/smoke/run.html"

    @extend_schema(
        summary="Show a run with all that was said",
        parameters=[
            OpenApiParameter(
                "from", int, description="Only the lines from this position on."
            ),
            OpenApiParameter("fragment", bool, description="Of the page, the run."),
        ],
        responses=smoke_schemas.SmokeRun,
    )
    def get(self, request: Request, id: str) -> Response:
        """Return a conversation as far as it is, with its calls and its scores."""
        # What is judged would be closed by the next sweep; who watches need not wait.
        run = run_queries.find(id)
        if run_queries.is_judging(run.batch) and verdicts.settle_all():
            run = run_queries.find(id)
        start = self.query_int("from", default=0, least=0, most=100_000)
        self.title = f"Run {run.repetition} of {run.test}"
        address = f"{PLACE}/{quote(run.test, safe='')}"
        self.breadcrumbs = [("Smoke tests", PLACE), (run.test, address)]
        is_fragment = "fragment" in request.query_params
        return self.respond(
            told(run, start),
            template="studio/smoke/_run.html" if is_fragment else None,
            page=lambda: {"run": run},
        )


class RunCancelling(Face):
    """`/admin/smoke/runs/{id}/cancel`."""

    @extend_schema(
        summary="Cancel a run",
        request=smoke_schemas.Cancel,
        responses=smoke_schemas.SmokeRun,
    )
    def post(self, request: Request, id: str) -> HttpResponseBase:
        """End a conversation, or all that was launched with it, and their scoring."""
        run, wanted = run_queries.find(id), self.parse_body(smoke_schemas.Cancel)
        ids = [run.pk]
        if wanted.batch:
            ids = [
                each.pk for batch in run_queries.batches([run.batch]) for each in batch
            ]

        def deed(count: int) -> Deed | None:
            details = {"runs": count}
            told = Deed("smoke_test.cancel", self.actor(), run.test, details)
            return told if count else None

        count = audit_log.recorded(deed, run_lifecycle.cancel, ids)
        said = f"Cancelled {count}" if count else "It was over already"
        return self.confirm_change(told(run_queries.find(id)), said=said, to=f"{RUNS}/{run.pk}")


def _test_of(name: str) -> SmokeTest:
    """Return a test by its name; raises `SmokeTestUnknown`."""
    tests = live.current().get(SMOKE_TESTS)
    return called(name, tests, noun="smoke test", unknown=SmokeTestUnknown)


def page(face: Face, test: str | None = None) -> dict[str, Any]:
    """Return batches as a query asks for them."""
    after = place(face.request.query_params.get("after"), uuid.UUID)
    batches, has_more = run_queries.page(test=test, after=after, limit=BATCHES)
    last = (batches[-1][0].created_at, batches[-1][0].batch) if batches else None
    data = [smoke_details.summary(batch) for batch in batches]
    return listed(data, has_more=has_more, last=last)


def told(run: Run, start: int = 0) -> dict[str, Any]:
    """Return a run with what was said from there on, and what it stands beside."""
    (batch,) = run_queries.batches([run.batch])
    return {
        **serializers.transcript(run, start),
        "outcome": serializers.outcome(run),
        "expected": [
            {"what": what, "is_met": is_met} for what, is_met in verdicts.expected(run)
        ],
        "batch_runs": [smoke_details.brief(each) for each in batch],
        "compared": smoke_details.compared(batch, run_queries.batch_before(run)),
    }
