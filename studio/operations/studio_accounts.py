"""Accounts of the studio: their roles, and whether they may log in."""

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

ACCOUNTS_URL = "/admin/people"
MAX_ACCOUNTS = 500
"""Accounts shown; a studio has dozens."""


class StudioAccount(BaseModel):
    """A user who has logged in to the studio."""

    username: str
    name: str
    email: str
    role: Literal["operator", "viewer"] | None
    is_active: bool
    entered_at: datetime


class StudioAccountList(BaseModel):
    """All accounts, by name."""

    object: Literal["list"] = "list"
    data: list[StudioAccount]
    has_more: bool


class AccountChanges(BaseModel):
    """The changes of an account; omitted fields stay as they are."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["operator", "viewer"] | None = None
    is_active: bool | None = None


class AccountListView(StudioView):
    """`/admin/people`."""

    title = "People"
    template = "studio/operations/accounts.html"

    @extend_schema(summary="List the people of the studio", responses=StudioAccountList)
    def get(self, request: Request) -> Response:
        """List the users who have logged in to the studio, and their roles."""
        rows = User.objects.prefetch_related("groups").order_by("username")
        found = list(rows[: MAX_ACCOUNTS + 1])
        told = [_serialize_account(row) for row in found[:MAX_ACCOUNTS]]
        shown = {"object": "list", "data": told, "has_more": len(found) > MAX_ACCOUNTS}
        return self.respond(shown, page=lambda: {"me": request.user.username})


class AccountView(StudioView):
    """`/admin/people/{username}`."""

    title = "Person"
    breadcrumbs = [("People", ACCOUNTS_URL)]

    @extend_schema(
        summary="Change a role", request=AccountChanges, responses=StudioAccount
    )
    def put(self, request: Request, username: str) -> HttpResponseBase:
        """Change a user's role or access; users cannot change their own."""
        terms = self.parse_body(AccountChanges)
        if username == request.user.username:
            raise Invalid("Have somebody else change your role, lest nobody is left")
        deed = AuditEvent(
            "person.change",
            self.actor(),
            username,
            terms.model_dump(exclude_none=True),
        )
        is_new = audit_log.run_recorded(
            lambda is_new: deed if is_new else None, update_account, username, terms
        )
        said = f"Changed '{username}'" if is_new else "Nothing changed"
        told = _serialize_account(User.objects.get(username=username))
        return self.confirm_change(told, message=said, redirect_to=ACCOUNTS_URL)


def update_account(username: str, terms: AccountChanges) -> bool:
    """Update an account; return whether it changed. Raises `NotFound`."""
    with transaction.atomic():
        row = User.objects.select_for_update().filter(username=username).first()
        if row is None:
            raise NotFound(f"nobody called '{username:.80}' has entered the studio")
        before = _serialize_account(row)
        if terms.role is not None:
            roles.set_role(row, Role(terms.role))
            row.is_superuser = False
        if terms.is_active is not None:
            row.is_active = terms.is_active
        row.save(update_fields=["is_active", "is_superuser"])
        if not row.is_active:
            # Old sessions stay ended when the account is enabled again.
            accounts.end_sessions(row)
    # Reload the user with its current groups.
    return before != _serialize_account(User.objects.get(pk=row.pk))


def _serialize_account(row: User) -> dict[str, Any]:
    names = {group.name for group in row.groups.all()}
    given = next((role for role in Role if role in names), None)
    return {
        "username": row.username,
        "name": row.get_full_name(),
        "email": row.email,
        "role": Role.OPERATOR if row.is_superuser else given,
        "is_active": row.is_active,
        "entered_at": row.date_joined,
    }
