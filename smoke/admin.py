"""Smoke runs in the studio: in batches, and one by one."""

from typing import Any, ClassVar

from django.contrib import admin
from django.db import transaction
from django.db.models import Model
from django.http import HttpRequest
from django.template.loader import render_to_string

from admin_base import audit
from admin_base.actions import Outcome, action
from admin_base.columns import column
from admin_base.filters import ExactFilter, TimeFilter
from admin_base.model_admin import StudioModelAdmin
from admin_base.query_parameters import query_int
from admin_base.serializers import Schema
from admin_base.templatetags.studio import usd
from config import live
from config.overrides import overridable_entries
from config.validation.named_lists import get_by_name
from core.errors import Invalid
from smoke.config import SMOKE_TESTS
from smoke.errors import SmokeTestUnknown
from smoke.models import SmokeBatch, SmokeRun
from smoke.reports import batches, transcript
from smoke.schemas import SmokeBatch as SmokeBatchObject
from smoke.schemas import SmokeCancel, SmokeLaunch, SmokeRunDetail, SmokeRunObject

LAUNCH = "studio.change_configuration"
RUNS_URL = "/admin/smoke/runs"
MAX_POSITION = 100_000


@admin.register(SmokeRun)
class SmokeRunAdmin(StudioModelAdmin):
    """The conversations of synthetic users."""

    path = "smoke-conversations"
    title = "Conversations of smoke tests"
    icon = "theater_comedy"
    links = (("Batches", RUNS_URL),)
    list_display = [
        "test",
        "repetition",
        "state",
        "verdict",
        "agent",
        "cost",
        "created_at",
    ]
    column_classes = {"repetition": "number", "verdict": "is-wide", "agent": "is-wide"}
    list_filter = [
        TimeFilter.of("created_at"),
        ExactFilter.of("test"),
        "state",
        "verdict",
        ExactFilter.of("agent"),
    ]
    ordering = ["-created_at"]
    schema: ClassVar[Schema | None] = SmokeRunDetail
    row_schema: ClassVar[Schema | None] = SmokeRunObject
    detail_template = "studio/smoke/run.html"
    detail_parameters = {
        "fragment": "The page has only the run.",
        "from": "The page shows the messages from this one on.",
    }
    actions = ["cancel"]
    empty_text = "“Run now” on the page of a smoke test starts the first ones."

    def find_row(self, request: HttpRequest, id: str) -> SmokeRun:
        return self.model.objects.find(id)  # type: ignore[no-any-return]

    def get_row(self, request: HttpRequest, id: str) -> Any:
        """Return a run; a run whose replies are scored is closed before it is shown."""
        run = self.find_row(request, id)
        judging = SmokeRun.objects.filter(batch=run.batch, state=SmokeRun.State.JUDGING)
        # The next sweep would close it; viewers do not wait for it.
        if judging.exists() and SmokeRun.objects.close_judged():
            run = self.find_row(request, id)
        start = query_int(
            request.GET, "from", default=0, minimum=0, maximum=MAX_POSITION
        )
        return load_details(run, start)

    def row_address(self, row: Model) -> str:
        return f"{RUNS_URL}/{row.pk}"

    def row_title(self, row: SmokeRun) -> str:
        return f"Run {row.repetition} of {row.test}"

    def serialize_row(self, row: Any, schema: Schema) -> dict[str, Any]:
        if schema is SmokeRunDetail and not hasattr(row, "transcript"):
            load_details(row)
        return super().serialize_row(row, schema)

    def detail_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return self.serialize_row(row, SmokeRunDetail)

    def get_detail_template(self, request: HttpRequest) -> str:
        is_fragment = "fragment" in request.GET
        return "studio/smoke/_run.html" if is_fragment else self.detail_template

    @action(
        "Cancel",
        audit="smoke_test.cancel",
        is_dangerous=True,
        is_available=lambda run: run.state in SmokeRun.UNFINISHED,
        body=SmokeCancel,
    )
    def cancel(
        self, request: HttpRequest, row: SmokeRun, body: SmokeCancel | None
    ) -> Outcome:
        """Cancel a conversation, or its whole batch, and the scoring."""
        is_batch = self.model is SmokeBatch if body is None else body.batch
        runs = SmokeRun.objects.filter(batch=row.batch)
        chosen = runs if is_batch else runs.filter(pk=row.pk)
        count = chosen.cancel()
        message = f"{count} {'run' if count == 1 else 'runs'} cancelled"
        return Outcome(
            bool(count),
            {"test": row.test, "runs": count},
            message if count else "The run has already ended",
        )

    @column("Cost", css="number is-wide")
    def cost(self, row: SmokeRun) -> str:
        return usd(row.cost_micro_usd)


@admin.register(SmokeBatch)
class SmokeBatchAdmin(SmokeRunAdmin):
    """The runs of a launch; the page of a row is that of its first run."""

    path = "smoke/runs"
    parent_paths = {"smoke/<path:test>/runs": None}
    title = "Runs"
    links = (("Conversations", "/admin/smoke-conversations"),)
    list_display = ["test", "outcomes", "created_at", "origin", "means", "cost"]
    column_classes = {"origin": "is-wide"}
    list_filter = [TimeFilter.of("created_at"), ExactFilter.of("test"), "origin"]
    list_per_page = 20
    row_schema = create_response = SmokeBatchObject
    create_schema, create_status = SmokeLaunch, 202
    create_operation = "smoke_run"

    def may(self, request: HttpRequest, permission: str) -> bool:
        own = f"smoke.{permission}_smokerun"
        return super().may(request, LAUNCH if permission == "add" else own)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        test = self.scope(request).get("test")
        # A deleted test still has runs.
        if test and not SmokeRun.objects.filter(test=test).exists():
            overridable_entries.get_entry(SMOKE_TESTS, test)
        return super().get_changelist_instance(request)

    def create(self, request: HttpRequest, body: SmokeLaunch) -> Any:
        """Launch a test; a worker runs each conversation as its own task."""
        name = self.scope(request).get("test")
        if name is None:
            raise Invalid("Name the test: POST /admin/smoke/{test}/runs")
        tests = live.current().get(SMOKE_TESTS)
        test = get_by_name(name, tests, noun="smoke test", unknown=SmokeTestUnknown)
        with transaction.atomic():
            runs = SmokeRun.objects.launch(
                test, origin="studio", repetitions=body.repetitions
            )
            details = {"repetitions": len(runs)}
            audit.record(request, "smoke_test.run", runs[0], details, target=name)
        return runs[0]

    def created_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        self.prepare_rows(request, [row])
        return self.serialize_row(row, SmokeBatchObject)

    def created_message(self, row: SmokeRun) -> str:
        return f"Smoke test '{row.test}' started"

    def get_queryset(self, request: HttpRequest) -> Any:
        runs: Any = super().get_queryset(request)
        return runs.first_of_batches().defer("settings")

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> list[Any]:
        chosen = SmokeRun.objects.filter(batch__in=[row.batch for row in rows])
        found = {runs[0].batch: runs for runs in chosen.batches()}
        for row in rows:
            row.summary = batches.describe_batch(found[row.batch], SmokeBatchObject)
        return super().prepare_rows(request, rows)

    def serialize_row(self, row: Any, schema: Schema) -> dict[str, Any]:
        if schema is SmokeBatchObject:
            return dict(row.summary.model_dump())
        return super().serialize_row(row, schema)

    @column("Runs")
    def outcomes(self, row: Any) -> str:
        return render_to_string("studio/smoke/_outcomes.html", {"batch": row.summary})

    @column("Mean scores", css="is-wide")
    def means(self, row: Any) -> str:
        return render_to_string("studio/smoke/_means.html", {"batch": row.summary})

    @column("Cost", css="number is-wide")
    def cost(self, row: Any) -> str:
        return usd(row.summary.cost_usd and round(row.summary.cost_usd * 1_000_000))


def load_details(run: Any, start: int = 0) -> Any:
    """Set what `SmokeRunDetail` has beside the columns; return the run."""
    batch = SmokeRun.objects.filter(batch=run.batch).batches()[0]
    run.transcript = transcript.load_messages(run, start)
    run.expected = [
        {"condition": condition, "is_met": is_met}
        for condition, is_met in run.check_expectations()
    ]
    run.batch_runs = batch
    run.compared = batches.compare_batches(batch, run.previous_batch())
    return run
