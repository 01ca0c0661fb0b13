"""Accounts of the studio: their roles and their access."""

from datetime import datetime
from typing import Any, Literal

from django.contrib.auth.models import User
from django.db import transaction
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, ConfigDict
from rest_framework.request import Request
from rest_framework.response import Response

from access.audit import audit_log
from access.audit.audit_events import AuditEvent
from core.errors import Invalid, NotFound
from studio.base.views import StudioView
from studio.security import accounts, roles
from studio.security.roles import Role

ACCOUNTS_URL = "/admin/accounts"
MAX_ACCOUNTS = 500
"""The largest number of accounts shown; a studio has dozens."""


class StudioAccount(BaseModel):
    """A user who has logged in to the studio."""

    username: str
    name: str
    email: str
    role: Literal["operator", "viewer"] | None
    is_active: bool
    first_login_at: datetime


class StudioAccountList(BaseModel):
    """All accounts, by name."""

    object: Literal["list"] = "list"
    data: list[StudioAccount]
    has_more: bool


class AccountChanges(BaseModel):
    """The changes of an account; omitted fields stay unchanged."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["operator", "viewer"] | None = None
    is_active: bool | None = None


class AccountListView(StudioView):
    """`/admin/accounts`."""

    title = "Accounts"
    template = "studio/operations/accounts.html"

    @extend_schema(
        summary="List the accounts of the studio", responses=StudioAccountList
    )
    def get(self, request: Request) -> Response:
        """List the users who have logged in to the studio, and their roles."""
        rows = User.objects.prefetch_related("groups").order_by("username")
        users = list(rows[: MAX_ACCOUNTS + 1])
        data = [_serialize_account(user) for user in users[:MAX_ACCOUNTS]]
        return self.respond(
            {"object": "list", "data": data, "has_more": len(users) > MAX_ACCOUNTS},
            page=lambda: {"current_username": request.user.username},
        )


class AccountView(StudioView):
    """`/admin/accounts/{username}`."""

    title = "Account"
    breadcrumbs = [("Accounts", ACCOUNTS_URL)]

    @extend_schema(
        summary="Change the role or the access of an account",
        request=AccountChanges,
        responses=StudioAccount,
    )
    def put(self, request: Request, username: str) -> HttpResponseBase:
        """Change the role or the access of another account."""
        changes = self.parse_body(AccountChanges)
        if username == request.user.username:
            raise Invalid("You cannot change your own account; ask another operator")
        details = changes.model_dump(exclude_none=True)
        event = AuditEvent("account.change", self.actor(), username, details)
        is_changed = audit_log.run_recorded(
            lambda is_changed: event if is_changed else None,
            update_account,
            username,
            changes,
        )
        outcome = "changed" if is_changed else "is unchanged"
        return self.confirm_change(
            _serialize_account(User.objects.get(username=username)),
            message=f"Account '{username}' {outcome}",
            redirect_to=ACCOUNTS_URL,
        )


def update_account(username: str, changes: AccountChanges) -> bool:
    """Update an account; return whether it changed. Raises `NotFound`."""
    with transaction.atomic():
        row = User.objects.select_for_update().filter(username=username).first()
        if row is None:
            raise NotFound(f"There is no account '{username:.80}'")
        before = _serialize_account(row)
        if changes.role is not None:
            roles.set_role(row, Role(changes.role))
            row.is_superuser = False
        if changes.is_active is not None:
            row.is_active = changes.is_active
        row.save(update_fields=["is_active", "is_superuser"])
        if not row.is_active:
            # Old sessions stay ended when the account is enabled again.
            accounts.end_sessions(row)
    # Reload the user with the current groups.
    return before != _serialize_account(User.objects.get(pk=row.pk))


def _serialize_account(row: User) -> dict[str, Any]:
    groups = {group.name for group in row.groups.all()}
    assigned = next((role for role in Role if role in groups), None)
    return {
        "username": row.username,
        "name": row.get_full_name(),
        "email": row.email,
        "role": Role.OPERATOR if row.is_superuser else assigned,
        "is_active": row.is_active,
        "first_login_at": row.date_joined,
    }
