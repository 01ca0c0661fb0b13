"""Runs of smoke tests: launch, watch, cancel and compare them."""

import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log
from access.audit.audit_events import AuditEvent
from config import live
from config.overrides import overridable_entries
from config.validation.named_lists import get_by_name
from smoke.config import SMOKE_TESTS, SmokeTestConfig
from smoke.errors import SmokeTestUnknown
from smoke.evaluation import verdicts
from smoke.execution import run_lifecycle
from smoke.models import SmokeRun
from smoke.reports import run_queries, serializers
from studio.base.pagination import parse_cursor, serialize_page
from studio.base.views import StudioView
from studio.evaluation import smoke_details, smoke_schemas
from tasks.queue import worker_notifier

SMOKE_URL = "/admin/smoke"
RUNS_URL = f"{SMOKE_URL}/runs"
PAGE_SIZE = 20
AFTER_PARAMETER = OpenApiParameter("after", str, description="The last_id of a page.")


class SmokeRunListView(StudioView):
    """`/admin/smoke/runs`."""

    title = "Runs"
    breadcrumbs = [("Smoke tests", SMOKE_URL)]
    template = "studio/smoke/runs.html"

    @extend_schema(
        summary="List the runs of all smoke tests",
        parameters=[AFTER_PARAMETER],
        responses=smoke_schemas.SmokeBatchList,
    )
    def get(self, request: Request) -> Response:
        """List batches, newest first."""
        return self.respond(page_batches(self))


class SmokeTestRunListView(StudioView):
    """`/admin/smoke/{name}/runs`."""

    template = "studio/smoke/runs.html"

    @extend_schema(
        operation_id="smoke_test_runs_list",
        summary="List the runs of a smoke test",
        parameters=[AFTER_PARAMETER],
        responses=smoke_schemas.SmokeBatchList,
    )
    def get(self, request: Request, name: str) -> Response:
        """List batches of one test, newest first."""
        self._set_breadcrumbs(name)
        batches = page_batches(self, name)
        if not batches["data"] and not request.query_params:
            # Raises for an unknown test; a deleted test still has runs.
            overridable_entries.get_entry(SMOKE_TESTS, name)
        return self.respond(batches, page=lambda: {"test": name})

    @extend_schema(
        operation_id="smoke_run",
        summary="Run a smoke test",
        request=smoke_schemas.SmokeLaunch,
        responses={202: smoke_schemas.SmokeBatch},
    )
    def post(self, request: Request, name: str) -> HttpResponseBase:
        """Launch a test; a worker runs each conversation as its own task."""
        self._set_breadcrumbs(name)
        test, body = _find_test(name), self.parse_body(smoke_schemas.SmokeLaunch)
        runs = audit_log.run_recorded(
            lambda runs: AuditEvent(
                "smoke_test.run", self.actor(), name, {"repetitions": len(runs)}
            ),
            run_lifecycle.launch_test,
            test,
            origin="studio",
            repetitions=body.repetitions,
        )
        worker_notifier.notify()
        response = self.confirm_change(
            smoke_details.serialize_batch(runs),
            message=f"Smoke test '{name}' started",
            redirect_to=f"{RUNS_URL}/{runs[0].pk}",
            status=202,
        )
        if not self.wants_html:
            response["Location"] = f"{RUNS_URL}/{runs[0].pk}"
        return response

    def refused_form_context(self) -> Mapping[str, Any]:
        """Return the list of runs."""
        return page_batches(self, self.kwargs["name"])

    def _set_breadcrumbs(self, name: str) -> None:
        self.title = f"Runs of {name}"
        address = f"{SMOKE_URL}/{quote(name, safe='')}"
        self.breadcrumbs = [("Smoke tests", SMOKE_URL), (name, address)]


class SmokeRunView(StudioView):
    """`/admin/smoke/runs/{id}`."""

    template = "studio/smoke/run.html"

    @extend_schema(
        summary="Show a run with its messages",
        parameters=[
            OpenApiParameter(
                "from", int, description="Only the messages from this position on."
            ),
            OpenApiParameter("fragment", bool, description="Only a part of the page."),
        ],
        responses=smoke_schemas.SmokeRunDetail,
    )
    def get(self, request: Request, id: str) -> Response:
        """Return a conversation so far, with its calls and scores."""
        # The next sweep would close a scored run; viewers do not wait for it.
        run = run_queries.find_run(id)
        if run_queries.is_judging(run.batch) and verdicts.close_judged_runs():
            run = run_queries.find_run(id)
        start = self.query_int("from", default=0, minimum=0, maximum=100_000)
        self.title = f"Run {run.repetition} of {run.test}"
        address = f"{SMOKE_URL}/{quote(run.test, safe='')}"
        self.breadcrumbs = [("Smoke tests", SMOKE_URL), (run.test, address)]
        is_fragment = "fragment" in request.query_params
        return self.respond(
            serialize_run(run, start),
            template="studio/smoke/_run.html" if is_fragment else None,
            page=lambda: {"run": run},
        )


class CancelSmokeRunView(StudioView):
    """`/admin/smoke/runs/{id}/cancel`."""

    @extend_schema(
        summary="Cancel a run",
        request=smoke_schemas.SmokeCancel,
        responses=smoke_schemas.SmokeRunDetail,
    )
    def post(self, request: Request, id: str) -> HttpResponseBase:
        """Cancel a conversation, or its whole batch, and the scoring."""
        run = run_queries.find_run(id)
        ids = [run.pk]
        if self.parse_body(smoke_schemas.SmokeCancel).batch:
            batches = run_queries.load_batches([run.batch])
            ids = [each.pk for batch in batches for each in batch]

        def event_of(count: int) -> AuditEvent | None:
            details = {"runs": count}
            event = AuditEvent("smoke_test.cancel", self.actor(), run.test, details)
            return event if count else None

        count = audit_log.run_recorded(event_of, run_lifecycle.cancel_runs, ids)
        runs = "run" if count == 1 else "runs"
        return self.confirm_change(
            serialize_run(run_queries.find_run(id)),
            message=f"{count} {runs} cancelled"
            if count
            else "The run has already ended",
            redirect_to=f"{RUNS_URL}/{run.pk}",
        )


def _find_test(name: str) -> SmokeTestConfig:
    """Return a test by its name; raises `SmokeTestUnknown`."""
    tests = live.current().get(SMOKE_TESTS)
    return get_by_name(name, tests, noun="smoke test", unknown=SmokeTestUnknown)


def page_batches(view: StudioView, test: str | None = None) -> dict[str, Any]:
    """Return the page of batches that a request selects."""
    after = parse_cursor(view.request.query_params.get("after"), uuid.UUID)
    batches, has_more = run_queries.page_batches(
        test=test, after=after, limit=PAGE_SIZE
    )
    last = (batches[-1][0].created_at, batches[-1][0].batch) if batches else None
    data = [smoke_details.serialize_batch(batch) for batch in batches]
    return serialize_page(data, has_more=has_more, last=last)


def serialize_run(run: SmokeRun, start: int = 0) -> dict[str, Any]:
    """Return a run with its messages from a position on, and its comparison."""
    (batch,) = run_queries.load_batches([run.batch])
    return {
        **serializers.serialize_transcript(run, start),
        "outcome": serializers.run_outcome(run),
        "expected": [
            {"condition": condition, "is_met": is_met}
            for condition, is_met in verdicts.expectation_results(run)
        ],
        "batch_runs": [smoke_details.serialize_run_summary(each) for each in batch],
        "compared": smoke_details.compare_batches(batch, run_queries.batch_before(run)),
    }
