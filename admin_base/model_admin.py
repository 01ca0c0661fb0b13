"""A table in the studio: pages for browsers, and the same as JSON, YAML and CSV.

    @admin.register(ApiToken)
    class ApiTokenAdmin(StudioModelAdmin):
        path = "tokens"
        list_display = ["label", "principal", "created_at"]
        list_filter = ["budget", TimeFilter.of("created_at")]
        search_fields = ["label"]
        ordering = ["-created_at"]
        actions = ["revoke"]

It has `/admin/tokens`, `/admin/tokens/{id}` and `/admin/tokens/{id}/revoke`. Rows are
read-only unless `is_editable`, `can_add` or `can_delete` say otherwise; what a user may
do of that, Django's permissions decide.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import orjson
from django.contrib.admin.models import ADDITION, CHANGE, DELETION
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import path as url
from django.utils.text import capfirst
from pydantic import BaseModel
from unfold.admin import ModelAdmin

from admin_base import audit, columns, filters, serializers
from admin_base.actions import RowAction
from admin_base.filters import TimeFilter
from admin_base.model_pages import view_factory
from admin_base.model_pages.change_list import KeysetChangeList
from admin_base.serializers import Schema
from core.errors import NotFound
from core.text import redaction

STANDARD_PERMISSIONS = ("add", "change", "delete", "view")


class StudioModelAdmin(ModelAdmin):  # type: ignore[misc]  # it has no types
    """The list, the detail page and the actions of a table."""

    path: str = ""
    """The address below `/admin/`; by default `app/model`."""
    parent_paths: ClassVar[Mapping[str, type[BaseModel] | None]] = {}
    """Addresses of the rows of one object, such as `users/<str:user>/turns`, each with
    the shape of this list if it has its own. The parameter is one of the filters."""
    row_path: str = ""
    """The address of the rows' own pages, if it is one of `parent_paths`."""
    title: str = ""
    """The title of the list; by default the plural of the model."""
    lead: ClassVar[str] = ""
    """A sentence below the title."""
    row_buttons: ClassVar[Sequence[str]] = ()
    """The actions that lists offer beside each row."""
    links: ClassVar[Sequence[tuple[str, str]]] = ()
    """Related pages, as labels and addresses, beside the title of the list."""
    empty_text: ClassVar[str] = ""
    """What an empty list says: what will appear, and how to get the first one."""
    icon: ClassVar[str] = "table_rows"
    column_classes: ClassVar[Mapping[str, str]] = {}
    """CSS classes of columns: `number`, `long`, `is-wide`."""
    hidden_fields: ClassVar[Sequence[str]] = ()
    """Fields that no page and no format has, such as digests."""
    schema: ClassVar[Schema | None] = None
    """The shape of a row for scripts; by default the fields of the detail page."""
    row_schema: ClassVar[Schema | None] = None
    """The shape of a row in lists; by default `schema`, or else the columns."""
    list_response: ClassVar[type[BaseModel] | None] = None
    """The shape of the list, if `list_data` returns more than pages of rows."""
    create_response: ClassVar[Schema | None] = None
    """The shape of a row that was just created; by default `schema`."""
    create_operation: ClassVar[str | None] = None
    """The operation id of the request that creates a row; by default of its address."""
    create_status: ClassVar[int] = 201
    create_schema: ClassVar[type[BaseModel] | None] = None
    """The body of a request that creates a row; `create` does so."""
    update_schema: ClassVar[type[BaseModel] | None] = None
    """The body of a PUT request, if `update` makes such changes."""
    update_method: ClassVar[str] = "put"
    """`patch` if requests name only the fields to change."""
    clearable_fields: ClassVar[Sequence[str]] = ()
    """Fields of `update_schema` that an empty field of a form clears."""
    audit_noun: ClassVar[str] = ""
    """The noun of forms in the audit, such as `group` in `group.create`."""
    delete_action: ClassVar[str] = ""
    """The action that the DELETE method runs."""
    delete_response: ClassVar[Schema | None] = None
    """The shape of its response; by default `schema`."""
    is_editable = can_add = can_delete = False
    is_documented: ClassVar[bool] = True
    """Whether the OpenAPI document describes it."""
    max_limit = 500
    list_per_page = 50
    show_full_result_count = False
    list_template: ClassVar[str] = "admin_base/list.html"
    change_form_outer_before_template = "admin_base/row_actions.html"
    detail_template: ClassVar[str] = "admin_base/detail.html"
    detail_parameters: ClassVar[Mapping[str, str]] = {}
    """Query parameters of a row's page, and what they do."""
    id_converter: ClassVar[str] = "str"
    table_class: ClassVar[str] = ""

    def __init__(self, model: type[Model], admin_site: Any) -> None:
        super().__init__(model, admin_site)
        self.path = self.path or f"{model._meta.app_label}/{model._meta.model_name}"
        self.row_path = self.row_path or self.path
        plural = str(model._meta.verbose_name_plural)
        self.title = self.title or plural[:1].upper() + plural[1:]

    # The addresses.

    @property
    def address(self) -> str:
        """The address of the list."""
        return f"/admin/{self.path}"

    def row_address(self, row: Model) -> str:
        return f"{self.address}/{row.pk}"

    def scope(self, request: HttpRequest | None) -> dict[str, str]:
        """Return the parameters in the address; empty at `path`."""
        match = request and request.resolver_match
        given = match.kwargs if match else {}
        return {name: given[name] for name in given if name != "id"}

    def filter_value(self, request: HttpRequest | None, name: str) -> str:
        """Return the value of a filter, from the address or the query; "" if none."""
        query = request.GET if request else {}
        return self.scope(request).get(name) or query.get(name, "")

    def urls_at(self, path: str) -> list[Any]:
        """Return the addresses of a list, and at `row_path` of rows and actions."""
        views = view_factory.build_views(self, path)
        if path != self.row_path:
            return [url("", views.list)]
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        row = f"/<{self.id_converter}:id>"
        extra = self.extra_urls()
        own = {str(each.pattern) for each in extra}
        urls = [url("", views.list, name=f"{name}_changelist"), *extra]
        if self.can_add:
            urls.append(url("/add", views.add, name=f"{name}_add"))
        if self.can_delete:
            urls.append(url(f"{row}/delete", views.delete, name=f"{name}_delete"))
        for each, view in views.actions.items():
            if f"{row}/{each}" not in own:
                urls.append(url(f"{row}/{each}", view, name=f"{name}_{each}"))
        return [*urls, url(row, views.detail, name=f"{name}_change")]

    def extra_urls(self) -> list[Any]:
        """Return further addresses below the list's; each begins with `/`.

        One may be that of an action, to also answer GET.
        """
        return []

    # The rows.

    def get_changelist(self, request: HttpRequest, **options: Any) -> Any:
        return KeysetChangeList

    def get_list_filter(self, request: HttpRequest | None) -> list[Any]:
        return [filters.resolve(each, self.model) for each in self.list_filter]

    @property
    def has_time_range(self) -> bool:
        """Whether the list takes the range of time from the page before."""
        return any(issubclass(each, TimeFilter) for each in self.get_list_filter(None))

    def get_ordering(self, request: HttpRequest) -> list[str]:
        return list(self.ordering or ["-pk"])

    def get_sortable_by(self, request: HttpRequest) -> list[str]:
        """Return the field of the default order, which has an index."""
        return [self.get_ordering(request)[0].removeprefix("-")]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows; lists leave large fields without a column unread."""
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows

    def find_row(self, request: HttpRequest, id: str) -> Any:
        """Return a row by the id in its address, for an action; raises `NotFound`."""
        try:
            key = self.opts.pk.to_python(id)
            row = self.get_queryset(request).filter(pk=key).first()
        except (ValidationError, ValueError, OverflowError):
            row = None
        if row is None:
            raise NotFound(f"There is no {self.opts.verbose_name} '{id:.80}'")
        return row

    def get_row(self, request: HttpRequest, id: str) -> Any:
        """Return a row by the id in its address, to be shown; raises `NotFound`."""
        return self.prepare_rows(request, [self.find_row(request, id)])[0]

    def prepare_rows(self, request: HttpRequest, rows: list[Any]) -> list[Any]:
        """Return the rows of a page with what their columns need, in few queries.

        Our own secrets are redacted in all of their texts.
        """
        return [redact_row(row) for row in rows]

    # Permissions.

    def has_add_permission(self, request: HttpRequest) -> bool:
        is_offered = self.can_add or self.create_schema is not None
        return is_offered and bool(super().has_add_permission(request))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.can_delete and bool(super().has_delete_permission(request, obj))

    def offered_verbs(self) -> list[str]:
        """Return the verbs of the permissions that the pages ask for."""
        can_add = self.can_add or self.create_schema is not None
        rest = [("add", can_add), ("delete", self.can_delete)]
        return ["view", "change", *(verb for verb, is_offered in rest if is_offered)]

    def may(self, request: HttpRequest, permission: str) -> bool:
        """Return whether the user has a permission, such as `change`."""
        if "." in permission:
            return request.user.has_perm(permission)
        name = permission
        if permission in STANDARD_PERMISSIONS:
            name = f"{permission}_{self.opts.model_name}"
        return request.user.has_perm(f"{self.opts.app_label}.{name}")

    def row_actions(self) -> dict[str, RowAction]:
        """Return all declared actions by name."""
        names = [each for each in self.actions or () if isinstance(each, str)]
        return {name: getattr(type(self), name).row_action for name in names}

    def bulk_actions(self) -> dict[str, RowAction]:
        """Return the actions that lists offer for chosen rows."""
        return {name: it for name, it in self.row_actions().items() if it.is_bulk}

    def allowed_actions(self, request: HttpRequest) -> list[RowAction]:
        actions = self.row_actions().values()
        return [each for each in actions if self.may(request, each.permission)]

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Return no actions of Django's own: `admin_base.actions` runs ours."""
        return {}

    def render_change_form(self, request: Any, context: Any, **options: Any) -> Any:
        """Return the form, with the actions on the row above it."""
        if (row := options.get("obj")) is not None:
            context["row_actions"] = self.row_actions_for(request, row)
            context["address"] = self.row_address(row)
        return super().render_change_form(request, context, **options)

    # The records of changes by forms, which Django asks for.

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> None:
        self._record(request, "create", obj, ADDITION)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> None:
        fields = [name for each in message for name in each["changed"]["fields"]]
        if fields:
            self._record(request, "change", obj, CHANGE, {"fields": fields})

    def log_deletions(self, request: HttpRequest, queryset: Any) -> None:
        for row in queryset:
            self._record(request, "delete", row, DELETION)

    def _record(
        self, request: HttpRequest, verb: str, row: Any, flag: int, details: Any = None
    ) -> None:
        noun = self.audit_noun or self.opts.model_name
        target = self.audit_target(row)
        audit.record(request, f"{noun}.{verb}", row, details, target=target, flag=flag)

    def audit_target(self, row: Any) -> str:
        """Return how the audit names a row: never by a text of a user."""
        return str(row.pk)

    # The pages.

    def list_context(self, request: HttpRequest, page: Any) -> dict[str, Any]:
        """Return more context for the template of the list."""
        return {}

    def detail_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return more context for the template of a row."""
        return {}

    def get_detail_template(self, request: HttpRequest) -> str:
        return self.detail_template

    def row_title(self, row: Any) -> str:
        return str(row)

    def row_actions_for(self, request: HttpRequest, row: Any) -> list[RowAction]:
        """Return the actions that apply to a row in its state."""
        allowed = self.allowed_actions(request)
        return [each for each in allowed if each.is_available(row)]

    def buttons_for(self, request: HttpRequest, row: Any) -> list[RowAction]:
        """Return the actions that the list offers beside a row."""
        if not self.row_buttons:
            return []
        actions = self.row_actions_for(request, row)
        return [each for each in actions if each.name in self.row_buttons]

    def detail_fields(self) -> list[str]:
        if self.fieldsets or self.fields:
            sets = self.get_fieldsets(None)
            return [name for _, options in sets for name in options["fields"]]
        hidden = {*self.hidden_fields, *(self.exclude or ())}
        fields = [field.name for field in self.opts.concrete_fields]
        return [name for name in fields if name not in hidden]

    def sections(self, row: Any) -> list[tuple[str, list[tuple[str, Any]]]]:
        """Return the sections of a row's page: titles, and labels with values."""
        sets = self.fieldsets or [(None, {"fields": self.detail_fields()})]
        return [(title or "", self._pairs(opts["fields"], row)) for title, opts in sets]

    def _pairs(self, names: Sequence[str], row: Any) -> list[tuple[str, Any]]:
        label, value = columns.label_of, columns.display_value
        return [(label(name, self), value(name, row, self)) for name in names]

    # The data.

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        """Return the page of a list that a request selects, for scripts."""
        page = self.get_changelist_instance(request)
        rows = page.result_list
        return {
            "object": "list",
            "data": [self.serialize_row(row, self.list_schema) for row in rows],
            "has_more": page.has_more,
            "last_id": page.last_id,
        }

    @cached_property
    def detail_schema(self) -> Schema:
        return self.schema or serializers.build_serializer(self, self.detail_fields())

    @cached_property
    def form_schema(self) -> Schema:
        names = set(self.detail_fields()) - set(self.readonly_fields)
        return serializers.build_serializer(self, sorted(names), "Form", key=False)

    @cached_property
    def list_schema(self) -> Schema:
        if self.row_schema or self.schema:
            return self.row_schema or self.schema  # type: ignore[return-value]  # one is set
        return serializers.build_serializer(self, self.list_display, "Row")

    def serialize_row(self, row: Any, schema: Schema) -> dict[str, Any]:
        return serializers.serialize(schema, row)

    def update(self, request: HttpRequest, row: Any, body: Any) -> Any:
        """Make and record the changes of a PUT request; return the row."""
        raise NotImplementedError

    def create(self, request: HttpRequest, body: Any) -> Any:
        """Create and record the row of a request; return it."""
        raise NotImplementedError

    def created_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return self.serialize_row(row, self.detail_schema)

    def created_message(self, row: Any) -> str:
        return f"{capfirst(self.opts.verbose_name)} created"


def redact_row(row: Any) -> Any:
    """Return a row with our own secrets redacted, whatever their source."""
    for field in row._meta.concrete_fields:
        value = row.__dict__.get(field.attname)  # None for a deferred field.
        if isinstance(value, str):
            setattr(row, field.attname, redaction.redact_own(value))
        elif isinstance(value, dict | list):
            text = redaction.redact_own(orjson.dumps(value).decode())
            setattr(row, field.attname, orjson.loads(text))
    return row
