"""Tables of the configuration: overrides with their history, and MCP connections.

They are declared here, because they need the users of `access` or the event loop.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal
from uuid import UUID

from django.contrib import admin
from django.db import transaction
from django.http import HttpRequest
from pydantic import AwareDatetime, BaseModel

from access.authentication import accounts
from access.users.filters import UserFilter
from admin_base import audit
from admin_base.actions import Outcome, action
from admin_base.columns import column, link
from admin_base.filters import ChoiceFilter, ExactFilter, TimeFilter
from admin_base.model_admin import StudioModelAdmin
from admin_base.templatetags.studio import ago
from config import live
from config.loading import resolution
from config.models import Override, OverrideVersion
from config.overrides import overridable_entries, override_editor
from config.validation.named_lists import get_by_name
from core.ids import UserId
from mcp_bridge.config import MCP, ToolServerConfig
from mcp_bridge.models import McpToken
from mcp_bridge.oauth.errors import ServerUnknown
from studio.configuration.entry_schemas import DeletedEntry
from studio.configuration.file_views import override_url
from studio.server import event_loop_bridge
from turns.tools.mcp_sessions import TOKEN_MANAGER


class SectionFilter(ChoiceFilter):
    parameter = "section"

    @property
    def options(self) -> Sequence[str]:  # type: ignore[override]  # of the sections
        return sorted(resolution.overridable_sections())


class EntryAdmin(StudioModelAdmin):
    """Rows about entries that the studio may override."""

    icon = "tune"

    @column("Entry", css="long")
    def entry(self, row: Any) -> Any:
        return link(override_url(row.section, row.name), row.name)


@admin.register(Override)
class OverrideAdmin(EntryAdmin):
    """The entries that are stored beside the file."""

    path = "overrides"
    lead = "Stored beside coulisse.yaml. Each replaces, adds or disables an entry."
    list_display = ["name", "section", "is_tombstone", "changed_at", "changed_by"]
    column_classes = {"is_tombstone": "is-wide", "changed_by": "is-wide"}
    list_filter = [SectionFilter, "is_tombstone", TimeFilter.of("changed_at")]
    fieldsets = [
        (
            None,
            {
                "fields": [
                    "section",
                    "entry",
                    "is_tombstone",
                    "changed_at",
                    "changed_by",
                    "version",
                    "body",
                ]
            },
        )
    ]
    actions = ["remove"]
    links = [("History", "/admin/override-history")]
    empty_text = "Edits of agents, judges, experiments and smoke tests appear here."
    empty_text += " On PostgreSQL, so do those of all settings."

    @action(
        "Remove",
        audit="",  # The action's name depends on the entry.
        confirm="The entry in coulisse.yaml applies again, if there is one.",
        is_dangerous=True,
        response=DeletedEntry,
    )
    def remove(self, request: HttpRequest, row: Override) -> Outcome:
        section = overridable_entries.get_section(row.section)
        actor = accounts.request_actor(request)
        verb = override_editor.remove_override(section, row.name, by=actor.name)
        name = overridable_entries.audit_action(section, verb)
        target = overridable_entries.audit_target(section, row.name)
        audit.record(request, name, row, target=target)
        return Outcome(data={"name": row.name, "deleted": True})


@admin.register(OverrideVersion)
class OverrideVersionAdmin(EntryAdmin):
    """The changes of overrides."""

    path = "override-history"
    title = "History of overrides"
    list_display = ["at", "section", "entry", "action", "by"]
    column_classes = {"section": "is-wide", "by": "is-wide"}
    list_filter = [SectionFilter, ExactFilter.of("name"), "action", TimeFilter.of("at")]
    links = [("Overrides", "/admin/overrides")]
    empty_text = "Each edit of an entry in the studio adds a row."


class McpConnection(BaseModel):
    """A user's connection to a server, without its tokens."""

    id: int
    server: str
    user_id: UUID
    resource: str
    scopes: str
    is_refreshable: bool
    is_expired: bool
    created_at: AwareDatetime
    updated_at: AwareDatetime
    expires_at: AwareDatetime | None


class McpDisconnected(BaseModel):
    """A removed connection."""

    object: Literal["mcp.connection.deleted"] = "mcp.connection.deleted"
    server: str
    deleted: Literal[True] = True


@admin.register(McpToken)
class McpConnectionAdmin(StudioModelAdmin):
    """Users who have signed in to MCP servers."""

    path = "mcp-sign-ins"
    parent_paths = {"mcp/<str:server>/connections": None}
    title = "Connected users"
    lead = "Users who have signed in to MCP servers."
    icon = "extension"
    list_display = ["user", "server", "scopes", "created_at", "expiry"]
    column_classes = {"scopes": "is-wide", "created_at": "is-wide"}
    list_filter = [ExactFilter.of("server"), UserFilter, TimeFilter.of("created_at")]
    ordering = ["-created_at"]
    fieldsets = [(None, {"fields": [*list_display, "resource", "updated_at"]})]
    schema: ClassVar[Any] = McpConnection
    actions = ["disconnect"]
    row_buttons = ["disconnect"]
    empty_text = (
        "Users receive a sign-in link when their agent needs a server with sign-in."
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        rows: Any = super().get_queryset(request)
        return rows.with_state()

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        if server := self.scope(request).get("server"):
            find_server(server)
        return super().get_changelist_instance(request)

    @action(
        "Disconnect",
        audit="mcp.disconnect",
        confirm="The user must then sign in again.",
        is_dangerous=True,
        response=McpDisconnected,
    )
    def disconnect(self, request: HttpRequest, row: McpToken) -> Outcome:
        removed = McpToken.objects.disconnect(UserId(row.user_id), row.server)
        for token in removed:
            # The request to the provider must not hold the transaction open.
            transaction.on_commit(partial(revoke, token), robust=True)
        return Outcome(
            bool(removed),
            {"user": str(row.user_id)},
            "User disconnected",
            target=f"mcp server {row.server}",
            data=McpDisconnected(server=row.server).model_dump(),
        )

    @column("User", css="long")
    def user(self, row: McpToken) -> Any:
        return link(f"/admin/users/{row.user_id}", row.user_id)

    @column("Token expires", css="number")
    def expiry(self, row: Any) -> Any:
        if row.is_expired:
            return "expired"
        return "refreshes automatically" if row.is_refreshable else ago(row.expires_at)


def revoke(token: McpToken) -> None:
    """Revoke a removed token at its provider, if it supports this."""
    event_loop_bridge.run_external(TOKEN_MANAGER.revoke(live.current(), token))


def find_server(name: str) -> ToolServerConfig:
    """Return a configured server; raises `ServerUnknown`."""
    servers = live.current().get(MCP)
    return get_by_name(name, servers, noun="MCP server", unknown=ServerUnknown)
