"""API tokens in the studio."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.models import ADDITION
from django.db import transaction
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.module_loading import import_string

from access.authentication.config import AUTH
from access.limits import dollars
from access.models import ApiToken
from access.schemas import CreatedToken, NewToken, StudioToken
from access.tokens import token_scope, token_setup
from admin_base import audit
from admin_base.actions import Outcome, action
from admin_base.columns import column, link
from admin_base.filters import FlagFilter
from admin_base.model_admin import StudioModelAdmin
from admin_base.serializers import serialize
from admin_base.templatetags.studio import ago, usd
from config import live
from config.editing import config_file
from config.errors import ConfigInvalid
from core.errors import Invalid
from core.history import CHOICES
from core.text import time_parsing

FORM_FIELDS = {"expires_at": "expires", "limit_micro_usd": "limit_usd"}
"""Fields of the form, by the parameter names of `ApiToken.objects.issue`."""
SESSION_SECRET = "new_token"  # noqa: S105  # a name
"""The session key of a secret that the next page shows once."""


class InactiveFilter(FlagFilter):
    """Adds the tokens that are revoked or expired."""

    description = "Include revoked and expired tokens."

    def apply_flag(self, queryset: Any, is_on: bool) -> Any:
        return queryset if is_on else queryset.active(datetime.now(UTC))


@admin.register(ApiToken)
class ApiTokenAdmin(StudioModelAdmin):
    """API tokens and their spending."""

    path = "tokens"
    title = "Tokens"
    icon = "key"
    list_display = ["name", "user", "budget_shown", "spent", "used", "ends"]
    list_filter = [InactiveFilter.of("all", title="Revoked and expired, too")]
    search_fields = ["label", "principal"]
    ordering = ["-created_at"]
    actions = row_buttons = ["revoke"]
    links = [("Usage counters", "/admin/usage-counters")]
    delete_action = "revoke"
    fieldsets = [
        (
            "Token",
            {
                "fields": [
                    "user_link",
                    "client_users",
                    "budget_shown",
                    "spent_this_month",
                    "spent_in_total",
                    "used",
                    "agents_shown",
                    "history_shown",
                    "created_at",
                    "expires_at",
                    "revoked_at",
                    "id",
                ]
            },
        )
    ]
    hidden_fields = ["digest"]
    schema = StudioToken
    create_schema = NewToken
    create_response = CreatedToken
    list_template = "access/tokens.html"
    detail_template = "access/token.html"
    empty_text = "Create one below."

    def find_row(self, request: HttpRequest, id: str) -> ApiToken:
        return ApiToken.objects.by_id_prefix(id)

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> list[Any]:
        return ApiToken.objects.load_usage(rows, datetime.now(UTC))

    def row_title(self, row: ApiToken) -> str:
        return f"Token {row.label}"

    @action(
        "Revoke",
        audit="token.revoke",
        confirm="Its clients lose access. You cannot undo this.",
        is_dangerous=True,
        is_available=lambda token: token.state == "active",
    )
    def revoke(self, request: HttpRequest, row: ApiToken) -> Outcome:
        return Outcome(
            row.revoke(),
            {"label": row.label, "principal": row.principal},
            f"Token '{row.label}' revoked",
        )

    def create(self, request: HttpRequest, body: NewToken) -> ApiToken:
        """Issue the token; the response, or the next page, shows its secret."""
        row, secret = _issue_token(request, body)
        row.secret = request.session[SESSION_SECRET] = secret  # type: ignore[attr-defined]
        return row

    def created_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        del request.session[SESSION_SECRET]
        return {**serialize(StudioToken, row), "secret": row.secret}

    # The pages.

    def list_context(self, request: HttpRequest, page: Any) -> dict[str, Any]:
        config = live.current()
        return {
            "agents": import_string(settings.COULISSE_AGENT_NAMES)(config),
            "is_on": config.get(AUTH).requires_tokens or _is_enabled_in_file(),
            "can_enable": config.get(AUTH).proxy is None,
            "may_enable": request.user.has_perm("studio.change_configuration"),
            "may_create": self.has_add_permission(request),
            "histories": CHOICES,
            "shared_user": token_setup.shared_user_name(config),
        }

    def detail_context(self, request: HttpRequest, row: ApiToken) -> dict[str, Any]:
        secret = request.session.pop(SESSION_SECRET, None)
        is_on = live.current().get(AUTH).requires_tokens
        return {"secret": secret, "is_on": is_on, "token": row}

    @column("Label", css="long")
    def name(self, row: ApiToken) -> Any:
        if row.state == "active":
            return row.label
        return format_html(
            '{} <span class="badge is-bad">{}</span>', row.label, row.state
        )

    @column("User", css="long identity is-wide")
    def user(self, row: ApiToken) -> Any:
        notes = [", ".join(row.agents)] if row.agents else []
        if row.client_users == "separate":
            notes.append("separate users")
        rest = format_html_join(
            "", '<br><span class="muted">{}</span>', ((each,) for each in notes)
        )
        return format_html("{}{}", row.principal, rest)

    @column("Budget")
    def budget_shown(self, row: ApiToken) -> Any:
        if row.share is None:
            return format_html('<span class="muted">{}</span>', "unlimited")
        level = " is-bad" if row.share >= 1 else " is-warn" if row.share >= 0.8 else ""
        return format_html(
            '{}{}<div class="meter{}" title="{} % spent">'
            '<i style="--share: {}"></i></div>',
            usd(row.limit_micro_usd),
            " / month" if row.budget == "monthly" else "",
            level,
            round(row.share * 100),
            row.share,
        )

    @column("This month, total", css="number")
    def spent(self, row: ApiToken) -> Any:
        lines = [usd(row.spent_micro_usd)]
        if row.unpriced_turns:
            lines.append(f"+ {row.unpriced_turns} unpriced")
        rest = format_html_join(
            "", '<br><span class="muted">{}</span>', zip(lines, strict=True)
        )
        return format_html("{}{}", usd(row.spent_this_month_micro_usd), rest)

    @column("User")
    def user_link(self, row: ApiToken) -> Any:
        if row.client_users == "separate":
            return f"{row.principal}/…"
        address = f"/admin/users/{quote(row.principal, safe='')}"
        return link(address, row.principal)

    @column("Spent this month")
    def spent_this_month(self, row: ApiToken) -> str:
        return usd(row.spent_this_month_micro_usd)

    @column("Spent in total")
    def spent_in_total(self, row: ApiToken) -> str:
        unpriced = row.unpriced_turns
        more = f" + {unpriced} turns of unknown price" if unpriced else ""
        return f"{usd(row.spent_micro_usd)}{more}"

    @column("Agents")
    def agents_shown(self, row: ApiToken) -> str:
        return ", ".join(row.agents or ["all"])

    @column("History")
    def history_shown(self, row: ApiToken) -> str:
        return row.history or "as the agent says"

    @column("Last used", css="is-wide")
    def used(self, row: ApiToken) -> Any:
        return ago(row.last_used_at) if row.last_used_at else "never"

    @column("Expires", css="is-wide")
    def ends(self, row: ApiToken) -> Any:
        at = row.revoked_at or row.expires_at
        return ago(at) if at else "never"


def _issue_token(request: HttpRequest, body: NewToken) -> tuple[ApiToken, str]:
    """Issue the requested token; raises `Invalid`, naming the invalid field."""
    now = datetime.now(UTC)
    token_scope.check_agents(body.agents or (), live.current())
    limit = body.limit_usd
    never = body.expires.strip().lower() in ("", "never")
    with _name_form_field("limit_usd"):
        micro_usd = None if limit is None else dollars.parse_usd(f"{limit:f}")
    with _name_form_field("expires"):
        expires_at = None if never else time_parsing.parse_future(body.expires, now)
    with _name_form_field(None), transaction.atomic():
        row, secret = ApiToken.objects.issue(
            body.label,
            body.principal,
            budget=body.budget,
            limit_micro_usd=micro_usd,
            expires_at=expires_at,
            agents=body.agents or None,
            history=body.history,
            client_users=body.client_users,
            now=now,
        )
        terms = row.terms
        audit.record(request, "token.create", row, terms, flag=ADDITION)
    return row, secret


@contextmanager
def _name_form_field(field: str | None) -> Iterator[None]:
    """Name the form field in the errors that the block raises."""
    try:
        yield
    except Invalid as exc:
        exc.param = field or FORM_FIELDS.get(exc.param or "", exc.param)
        raise


def _is_enabled_in_file() -> bool:
    """Return whether the file requires tokens; the change applies within a second."""
    try:
        return config_file.read_file().has_entry(token_setup.TOKENS_PATH)
    except ConfigInvalid:
        return False
