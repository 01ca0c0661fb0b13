"""The list of turns in the studio; `studio.admin` registers it, with more on its pages.

The page of a turn also has its scores and recalled facts, which are of apps above.
"""

from typing import Any, ClassVar
from urllib.parse import quote

from django.conf import settings
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.module_loading import import_string
from django.utils.text import Truncator

from access.models import ApiToken
from access.users.filters import UserFilter
from access.users.model_admin import UserModelAdmin
from admin_base.columns import column, link
from admin_base.filters import ChoiceFilter, ExactFilter, Filter, TimeFilter
from admin_base.serializers import Schema
from admin_base.templatetags.studio import seconds, short, usd
from config import live
from core import ids
from core.errors import Invalid, NotFound
from telemetry.models import Origin, Outcome, Turn
from telemetry.presentation import diagnostics_text
from telemetry.schemas import StudioListedTurn, StudioTurn
from telemetry.storage import turn_store

TONES = {Outcome.OK: "is-good", Outcome.CANCELLED: "is-warn", Outcome.ERROR: "is-bad"}


class TurnNotRecorded(NotFound):
    """No such turn is recorded. Running and incognito turns have no record. Records \
are deleted after telemetry.sqlite.keep_days."""

    code = "turn_not_found"


class AgentFilter(ExactFilter):
    """Turns of an agent; the configured ones are suggested."""

    def suggestions(self) -> list[str]:
        return list(import_string(settings.COULISSE_AGENT_NAMES)(live.current()))


class ModelFilter(Filter):
    """Turns with a call of a model."""

    description = "A provider and its model, such as `openai/gpt-5-mini`."

    def apply(self, queryset: Any, value: str) -> Any:
        provider, _, model = value.partition("/")
        if not model:
            raise Invalid("'model' must be provider/model", param="model")
        return queryset.with_model(provider, model)


class TokenFilter(Filter):
    """Turns of requests with an API token."""

    title = "API token"
    description = "The label of an API token, or its UUID."

    def apply(self, queryset: Any, value: str) -> Any:
        return queryset.filter(token_id__in=ApiToken.objects.find_ids(value))


class OriginFilter(ChoiceFilter):
    def apply(self, queryset: Any, value: str) -> Any:
        turns = super().apply(queryset, value)
        # Names the condition of the index.
        return turns if value == Origin.CHAT else turns.exclude(origin=Origin.CHAT)


class TurnAdmin(UserModelAdmin):
    """Recorded turns."""

    path = "turns"
    parent_paths = {"users/<str:user>/turns": None}
    title = "Turns"
    icon = "account_tree"
    list_display = [
        "message",
        "user",
        "agent_shown",
        "started_at",
        "duration",
        "calls_shown",
        "tokens",
        "cost",
    ]
    list_filter = [
        TimeFilter.of("started_at"),
        AgentFilter.of("agent"),
        ModelFilter.of("model"),
        UserFilter,
        TokenFilter.of("token"),
        ExactFilter.of("experiment"),
        ChoiceFilter.of("outcome"),
        OriginFilter.of("origin"),
    ]
    ordering = ["-started_at"]
    fieldsets = [
        (
            "Turn",
            {
                "fields": [
                    "user",
                    "thread_name",
                    "agent_link",
                    "experiment_link",
                    "origin_shown",
                    "started_at",
                    "duration",
                    "finish_reason",
                    "cost",
                    "request_id",
                    "token_link",
                    "id",
                ]
            },
        ),
        ("Diagnostics", {"fields": ["recall_path", "prompt_parts", "phases"]}),
    ]
    row_schema = StudioListedTurn
    schema: ClassVar[Schema | None] = StudioTurn
    empty_text = "Turns are stored for the days in telemetry.sqlite.keep_days."

    def find_row(self, request: HttpRequest, id: str) -> Turn:
        turn_id = ids.parse_turn_id(id)
        turn = None if turn_id is None else Turn.objects.filter(pk=turn_id).first()
        if turn is None:
            raise TurnNotRecorded
        return turn

    def clean_search(self, text: str) -> str:
        return text.removeprefix(ids.COMPLETION_PREFIX)

    def get_row(self, request: HttpRequest, id: str) -> Any:
        return turn_store.load_records([super().get_row(request, id)])[0]

    def row_title(self, row: Turn) -> str:
        return f"Turn {str(row.pk)[:8]}"

    def serialize_row(self, row: Turn, schema: Any) -> dict[str, Any]:
        if schema is not self.row_schema and not hasattr(row, "calls"):
            turn_store.load_records([row])
        data: dict[str, Any] = schema.serialize(row)
        return data

    # Columns.

    @column("Turn", css="identity")
    def message(self, row: Turn) -> Any:
        text = Truncator(row.user_message).chars(90) or "(no text)"
        if not row.error:
            return text
        error = Truncator(row.error).chars(110)
        return format_html('{}<br><small class="is-bad">{}</small>', text, error)

    @column("Agent", css="is-wide")
    def agent_shown(self, row: Turn) -> Any:
        badge = ' <span class="badge {}">{}</span>'
        shown = format_html("{}", row.agent)
        if row.experiment:
            shown += format_html(badge, "is-accent", row.experiment)
        if row.origin != Origin.CHAT:
            shown += format_html(badge, "", row.origin)
        if row.outcome != Outcome.OK:
            shown += format_html(badge, TONES[Outcome(row.outcome)], row.outcome)
        return shown

    @column("Duration", css="number is-wide")
    def duration(self, row: Turn) -> str:
        return seconds(row.seconds)

    @column("Calls", css="number is-wide")
    def calls_shown(self, row: Turn) -> str:
        tools = "tool" if row.tool_calls == 1 else "tools"
        return f"{row.model_calls} model, {row.tool_calls} {tools}"

    @column("Tokens", css="number is-wide")
    def tokens(self, row: Turn) -> str:
        return f"{short(row.input_tokens)} in / {short(row.output_tokens)} out"

    @column("Cost", css="number")
    def cost(self, row: Turn) -> str:
        return usd(row.cost_micro_usd)

    @column("Thread")
    def thread_name(self, row: Turn) -> str:
        return row.thread or "default"

    @column("Agent")
    def agent_link(self, row: Turn) -> Any:
        return _config_link("agents", row.agent)

    @column("Token")
    def token_link(self, row: Turn) -> Any:
        if row.token_id is None:
            return None
        label = ApiToken.objects.labels([row.token_id]).get(str(row.token_id))
        return link(f"/admin/tokens/{row.token_id}", label) if label else row.token_id

    @column("Experiment")
    def experiment_link(self, row: Turn) -> Any:
        return _config_link("experiments", row.experiment)

    @column("Origin")
    def origin_shown(self, row: Turn) -> str:
        return f"{row.origin}, streamed" if row.is_streamed else row.origin

    # The diagnostics; turns of an earlier version have none.

    @column("Recall")
    def recall_path(self, row: Turn) -> str | None:
        found = row.diagnostics
        return None if found is None else diagnostics_text.recall(found)

    @column("Prompt")
    def prompt_parts(self, row: Turn) -> str | None:
        found = row.diagnostics
        return None if found is None else diagnostics_text.prompt(found)

    @column("Times")
    def phases(self, row: Turn) -> str | None:
        found = row.diagnostics
        return None if found is None else diagnostics_text.phases(found)


def _config_link(section: str, name: str | None) -> Any:
    return name and link(f"/admin/{section}/{quote(name, safe='')}", name)
