"""Accounts of the studio, and their groups."""

from typing import Any
from urllib.parse import quote

from django import forms
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest

from access.authentication import accounts, roles
from access.authentication.roles import Role
from access.schemas import AccountChanges, StudioAccount
from admin_base import audit
from admin_base.columns import column
from admin_base.model_admin import StudioModelAdmin
from admin_base.templatetags.studio import NO_VALUE
from core.errors import Invalid, NotFound


class CheckboxesField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]
    """Groups or permissions as checkboxes, which need no script."""

    widget = forms.CheckboxSelectMultiple


@admin.register(User)
class AccountAdmin(StudioModelAdmin):
    """Accounts that have logged in; `auth.admin` defines who can."""

    path = "accounts"
    title = "Accounts"
    lead = (
        "auth.admin in coulisse.yaml defines who can log in, and newcomers the role "
        "of new accounts."
    )
    icon = "badge"
    links = [("Groups", "/admin/groups")]
    list_display = ["name", "email", "group_names", "date_joined"]
    list_filter = ["is_active"]
    search_fields = ["username", "first_name", "email"]
    ordering = ["username"]
    column_classes = {"email": "is-wide", "date_joined": "is-wide"}
    is_editable = True
    fields = ["username", "groups", "is_active", "is_superuser"]
    readonly_fields = ["username"]
    schema = StudioAccount
    update_schema = AccountChanges
    audit_noun = "account"
    id_converter = "path"

    def find_row(self, request: HttpRequest, id: str) -> User:
        row = User.objects.filter(username=id).first()
        if row is None:
            raise NotFound(
                f"There is no account '{id:.80}': accounts exist from their first "
                f"sign-in on"
            )
        return row

    def row_address(self, row: Any) -> str:
        return f"{self.address}/{quote(row.username, safe='')}"

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return User.objects.prefetch_related("groups")

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> list[Any]:
        for row in rows:
            row.role, row.name = roles.role_of(row), row.get_full_name()
        return rows

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse users to change their own accounts."""
        is_own = obj is not None and obj.pk == request.user.pk
        return not is_own and bool(super().has_change_permission(request, obj))

    def audit_target(self, row: User) -> str:
        return row.username

    def save_model(self, request: Any, obj: Any, form: Any, change: Any) -> None:
        super().save_model(request, obj, form, change)
        if not obj.is_active:
            # Old sessions stay ended when the account is enabled again.
            accounts.end_sessions(obj)

    @column("Account", sort="username", css="long")
    def name(self, row: User) -> Any:
        blocked = "" if row.is_active else " (blocked)"
        full = row.get_full_name()
        name = f"{full} ({row.username})" if full else row.username
        return f"{name}{blocked}"

    @column("Groups")
    def group_names(self, row: User) -> str:
        names = ["superuser"] if row.is_superuser else []
        names += [group.name for group in row.groups.all()]
        return ", ".join(names) or NO_VALUE

    def formfield_for_manytomany(self, field: Any, request: Any, **more: Any) -> Any:
        return CheckboxesField(Group.objects.all(), required=False)

    # Scripts.

    def serialize_row(self, row: Any, schema: Any) -> dict[str, Any]:
        return {
            "username": row.username,
            "name": row.get_full_name(),
            "email": row.email,
            "role": roles.role_of(row),
            "groups": [group.name for group in row.groups.all()],
            "is_active": row.is_active,
            "first_login_at": row.date_joined,
        }

    def update(self, request: HttpRequest, row: User, body: Any) -> User:
        """Change the role or the access of another account."""
        if row.pk == request.user.pk:
            raise Invalid("You cannot change your own account; ask another operator")
        changes = body.model_dump(exclude_none=True)
        role = None if body.role is None else Role(body.role)
        with transaction.atomic():
            if accounts.change_account(row, role=role, is_active=body.is_active):
                name = row.username
                audit.record(request, "account.change", row, changes, target=name)
        return row


def _site() -> Any:
    """Return the site of the admin, which Django's types do not know as ours."""
    return admin.site


class PermissionsField(CheckboxesField):
    """Permissions by what they allow."""

    def label_from_instance(self, obj: Permission) -> str:
        return obj.name


@admin.register(Group)
class GroupAdmin(StudioModelAdmin):
    """Groups of accounts, and what they may do."""

    path = "groups"
    title = "Groups"
    lead = (
        "Viewers may see everything, operators may do everything. Add a group for "
        "accounts that may see or do less."
    )
    icon = "groups"
    list_display = ["name"]
    ordering = ["name"]
    is_editable = can_add = can_delete = True
    fields = ["name", "permissions"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse to change viewers and operators, which `migrate` defines."""
        is_own = obj is not None and obj.name in set(Role)
        return not is_own and bool(super().has_change_permission(request, obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse to delete viewers and operators."""
        is_own = obj is not None and obj.name in set(Role)
        return not is_own and bool(super().has_delete_permission(request, obj))

    def audit_target(self, row: Group) -> str:
        return row.name

    def formfield_for_manytomany(self, field: Any, request: Any, **more: Any) -> Any:
        return PermissionsField(_site().used_permissions(), required=False)
