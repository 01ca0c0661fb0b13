"""API tokens: create, list and revoke them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from rest_framework.request import Request
from rest_framework.response import Response

from access.authentication.config import AUTH
from access.limits import dollars
from access.models import ApiToken as Row
from access.tokens import (
    api_tokens,
    formatting,
    token_queries,
    token_scope,
    token_setup,
)
from access.tokens.token_queries import TokenUsage
from config import live
from config.editing import config_file, file_editor
from config.errors import ConfigInvalid
from core.errors import Invalid
from core.text import time_parsing
from studio.base.pagination import parse_cursor, serialize_page
from studio.base.views import StudioView
from studio.configuration.yaml_base_views import YamlView
from turns.preparation import routing

TOKENS_URL = "/admin/tokens"
PAGE_SIZE = 50
FORM_FIELDS = {"expires_at": "expires", "limit_micro_usd": "limit_usd"}
"""Fields of the form, by the parameter names of `api_tokens.create_token`."""


def _parse_names(value: Any) -> Any:
    """Split the comma-separated names of a form; return a list unchanged."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return value


class NewToken(BaseModel):
    """The purpose and the permissions of a new token."""

    model_config = ConfigDict(extra="forbid")

    label: str = Field(description="Its purpose, such as laptop or ci.")
    principal: str = Field(
        description="The user of its requests, as clients send it in safety_identifier."
    )
    budget: Literal["unlimited", "total", "monthly"] = "unlimited"
    limit_usd: Decimal | None = Field(
        None, description="US dollars that it may spend, in total or per month (UTC)."
    )
    expires: str = Field("never", description="`2026-12-31` (UTC), `90d` or `never`.")
    agents: Annotated[list[str], BeforeValidator(_parse_names)] | None = Field(
        None, description="The agents that it may call; by default all."
    )


class StudioToken(BaseModel):
    """A token and its spending in micro-USD, without its secret, which is not
    stored."""

    id: UUID
    state: Literal["active", "expired", "revoked"]
    label: str
    principal: str
    budget: Literal["unlimited", "total", "monthly"]
    limit_micro_usd: int | None
    spent_micro_usd: int
    spent_this_month_micro_usd: int
    unpriced_turns: int
    agents: list[str] | None
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


class CreatedToken(StudioToken):
    """A token that was just created."""

    secret: str = Field(description="Returned only here.")


class StudioListedToken(StudioToken):
    """A token in the list."""

    share: float | None = Field(description="The used share of its budget.")


class StudioTokenList(BaseModel):
    """A page of tokens, newest first."""

    object: Literal["list"] = "list"
    data: list[StudioListedToken]
    has_more: bool
    last_id: str | None


class TokenListView(StudioView):
    """`/admin/tokens`."""

    title = "Tokens"
    template = "studio/operations/tokens.html"

    @extend_schema(
        summary="List API tokens",
        parameters=[
            OpenApiParameter(
                "all", bool, description="Include revoked and expired tokens."
            ),
            OpenApiParameter("after", str, description="The last_id of a page."),
        ],
        responses=StudioTokenList,
    )
    def get(self, request: Request) -> Response:
        """List tokens and their spending, newest first."""
        return self.respond(self._page_context(), page=page_context)

    @extend_schema(
        summary="Create an API token", request=NewToken, responses={201: CreatedToken}
    )
    def post(self, request: Request) -> Response:
        """Create a token; only this response contains its secret."""
        row, secret = create_token(self.parse_body(NewToken), self)
        token = formatting.as_json(TokenUsage(row, "active"))
        return self.respond(
            {**token, "secret": secret},
            status=201,
            template="studio/operations/token_created.html",
            page=lambda: {
                "title": f"Token {row.label}",
                "is_on": are_tokens_required(),
            },
        )

    def refused_form_context(self) -> Mapping[str, Any]:
        """Return the page with the submitted form."""
        return {**self._page_context(), **page_context(), "form_data": self.body_data()}

    def _page_context(self) -> dict[str, Any]:
        query = self.request.query_params
        rows, has_more = token_queries.page_tokens(
            now=datetime.now(UTC),
            include_inactive=query.get("all") in ("1", "true", "on"),
            after=parse_cursor(query.get("after"), UUID),
            limit=PAGE_SIZE,
        )
        last = (rows[-1].row.created_at, rows[-1].row.id) if rows else None
        return serialize_page(
            [_with_share(formatting.as_json(row)) for row in rows],
            has_more=has_more,
            last=last,
        )


class TokenView(StudioView):
    """`/admin/tokens/{id}`."""

    title = "Token"
    breadcrumbs = [("Tokens", TOKENS_URL)]
    template = "studio/operations/token.html"

    @extend_schema(summary="Show an API token", responses=StudioToken)
    def get(self, request: Request, id: str) -> Response:
        """Return a token and its spending, by its id or a unique prefix."""
        return self._respond_with_token(api_tokens.get_by_id_prefix(id))

    @extend_schema(
        operation_id="tokens_revoke",
        summary="Revoke an API token",
        responses={200: StudioToken},
    )
    def delete(self, request: Request, id: str) -> HttpResponseBase:
        """Revoke a token."""
        row, _ = api_tokens.revoke(id, by=self.actor())
        return self.confirm_change(
            self._respond_with_token(row).data,
            message=f"Token '{row.label}' revoked",
            redirect_to=TOKENS_URL,
        )

    def _respond_with_token(self, row: Row) -> Response:
        self.title = f"Token {row.label}"
        return self.respond(
            formatting.as_json(token_queries.load_usage(row, datetime.now(UTC)))
        )


class TokensEnabledState(BaseModel):
    """Whether the file requires tokens."""

    is_on: Literal[True] = True


class EnableTokensView(YamlView):
    """`/admin/tokens/enable`: require tokens, which changes several sections."""

    title = "Tokens"
    breadcrumbs = [("Tokens", TOKENS_URL)]

    @extend_schema(
        operation_id="tokens_enable",
        summary="Require tokens for `/v1`",
        description="Writes `auth.proxy.tokens` to the file, and removes `users` and "
        "`default_user_id`, because each token has its user.",
        request=None,
        responses=TokensEnabledState,
    )
    def post(self, request: Request) -> HttpResponseBase:
        """Write the settings to the file, unless it already has them."""
        file = config_file.read_file()
        write = partial(
            file_editor.write_data, removed_comments=token_setup.removed_comments()
        )
        self.run_recorded({"section": "auth"}, write, token_setup.enable_tokens(file))
        message = self.change_message("Saved; clients now need a token")
        return self.confirm_change(
            {"is_on": True}, message=message, redirect_to=TOKENS_URL
        )


def create_token(body: NewToken, view: StudioView) -> tuple[Row, str]:
    """Create the requested token; raises `Invalid`, naming the invalid field."""
    now = datetime.now(UTC)
    token_scope.check_agents(body.agents or (), live.current())
    limit = body.limit_usd
    never = body.expires.strip().lower() in ("", "never")
    with _name_form_field("limit_usd"):
        micro_usd = None if limit is None else dollars.parse_usd(f"{limit:f}")
    with _name_form_field("expires"):
        expires_at = None if never else time_parsing.parse_future(body.expires, now)
    with _name_form_field(None):
        return api_tokens.create_token(
            body.label,
            body.principal,
            by=view.actor(),
            budget=body.budget,
            limit_micro_usd=micro_usd,
            expires_at=expires_at,
            agents=body.agents or None,
            now=now,
        )


@contextmanager
def _name_form_field(field: str | None) -> Iterator[None]:
    """Name the form field in the errors that the block raises."""
    try:
        yield
    except Invalid as exc:
        exc.param = field or FORM_FIELDS.get(exc.param or "", exc.param)
        raise


def page_context() -> dict[str, Any]:
    """Return the additional context of the page."""
    config = live.current()
    return {
        "agents": routing.list_names(config),
        "is_on": are_tokens_required() or _is_enabled_in_file(),
        "can_enable": config.get(AUTH).proxy is None,
        "shared_user": token_setup.shared_user_name(config),
    }


def are_tokens_required() -> bool:
    """Return whether `/v1` requires tokens."""
    proxy = live.current().get(AUTH).proxy
    return proxy is not None and proxy.tokens is not None


def _is_enabled_in_file() -> bool:
    """Return whether the file requires tokens; the change applies within a second."""
    try:
        return config_file.read_file().has_entry(token_setup.TOKENS_PATH)
    except ConfigInvalid:
        return False


def _with_share(token: dict[str, Any]) -> dict[str, Any]:
    """Add the used part of a token's budget, for the usage bar."""
    limit = token["limit_micro_usd"]
    monthly = token["budget"] == "monthly"
    used = token["spent_this_month_micro_usd" if monthly else "spent_micro_usd"]
    share = None if limit is None else min(1.0, used / limit) if limit else 1.0
    return {**token, "share": share}
