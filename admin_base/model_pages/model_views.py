"""The views of a `StudioModelAdmin`: list, rows and actions, in all formats."""

from typing import Any, ClassVar

from django.contrib import messages
from django.contrib.admin import helpers
from django.db.models import Model
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponse, HttpResponseBase
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from admin_base import columns
from admin_base.actions import EXPORT, RowAction
from admin_base.formats import csv_export, data_formats
from admin_base.formats.html_renderer import HtmlRenderer
from admin_base.model_pages.change_list import FORMAT
from admin_base.model_pages.model_forms import render_form, rendered, save_form
from admin_base.query_parameters import check_names
from admin_base.serializers import ActionResult, ActionResultList, ChosenRows, Schema
from admin_base.views import PageView, PermissionRequired
from core.errors import CoulisseError, Invalid

Answer = Response | HttpResponseBase

NEXT_FIELD = "_next"
"""The form field with the address to return to."""
MAX_CHOSEN = 500
"""Rows of one bulk action."""
CSV_FORMATS: list[type[BaseRenderer]] = [
    data_formats.JsonRenderer,
    data_formats.YamlRenderer,
    HtmlRenderer,
    data_formats.CsvRenderer,
]


class ModelView(PageView):
    """A view of a `StudioModelAdmin`."""

    model_admin: ClassVar[Any] = None
    permissions: ClassVar[dict[str, str]] = {"GET": "view"}
    """The permission that each method needs, as in `StudioModelAdmin.may`; `initial`
    asks for it, as a permission may be a method's."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Dispatch without the parameters of `parent_paths`, which `scope` has."""
        own = {name: value for name, value in kwargs.items() if name == "id"}
        return super().dispatch(request, **own)

    def may_change(self) -> bool:
        return bool(self.model_admin.may(self.request._request, "change"))

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.check_query(request)
        method = "GET" if request.method in ("HEAD", "OPTIONS") else str(request.method)
        self.require(self.permissions.get(method, "change"))

    def check_query(self, request: Request) -> None:
        """Raise `Invalid` for query parameters that the page does not know."""
        known = [FORMAT, *self.model_admin.detail_parameters]
        check_names(request.query_params, known)

    def require(self, permission: str) -> None:
        """Raise `PermissionRequired` unless the user has a permission."""
        if not self.model_admin.may(self.request._request, permission):
            opts = self.model_admin.opts
            raise PermissionRequired(
                f"Your account needs the permission to {permission} "
                f"{opts.verbose_name_plural} for this; ask an operator"
            )

    def next_address(self) -> str:
        """Return the page that a button was on; "" for the page of the row."""
        address = str(self._form_fields().get(NEXT_FIELD, ""))
        return address if address.startswith("/admin/") else ""

    def find_row(self, id: str) -> Any:
        return self.model_admin.find_row(self.request._request, id)

    def serialize_row(self, row: Model, schema: Schema | None = None) -> dict[str, Any]:
        admin = self.model_admin
        (shown,) = admin.prepare_rows(self.request._request, [row])
        data: dict[str, Any] = admin.serialize_row(shown, schema or admin.detail_schema)
        return data


class ListView(ModelView):
    """The list of a table: `GET`, bulk actions, and `POST` of a new row."""

    renderer_classes = CSV_FORMATS
    permissions: ClassVar[dict[str, str]] = {"GET": "view", "POST": "view"}

    def check_query(self, request: Request) -> None:
        """Leave the query to the list, which knows its filters."""

    @property
    def template(self) -> str:  # type: ignore[override]  # of the declaration
        return str(self.model_admin.list_template)

    @property
    def title(self) -> str:  # type: ignore[override]  # of the declaration
        return str(self.model_admin.title)

    def get(self, request: Request) -> Answer:
        """List the rows that match, in pages."""
        if self.wants_html:
            return self.respond(self.page_context())
        data = self.model_admin.list_data(request._request)
        if request.accepted_renderer.format == "csv":
            return self.csv_response(data["data"])
        return self.respond(data)

    def page_context(self) -> dict[str, Any]:
        admin, request = self.model_admin, self.request._request
        page, scope = admin.get_changelist_instance(request), admin.scope(request)
        return {
            "cl": page,
            "admin": admin,
            "lead": " ".join(["of", *scope.values()]) if scope else admin.lead,
            "rows": [self._row_context(row, page) for row in page.result_list],
            "bulk_actions": [
                each for each in admin.allowed_actions(request) if each.is_bulk
            ],
            "is_filtered": page.has_active_filters or bool(page.query),
            "has_add_permission": admin.can_add and admin.has_add_permission(request),
            **admin.list_context(request, page),
        }

    def _row_context(self, row: Model, page: Any) -> dict[str, Any]:
        admin = self.model_admin
        return {
            "row": row,
            "address": admin.row_address(row),
            "buttons": admin.buttons_for(self.request._request, row),
            "cells": [
                (each, columns.display_value(each.name, row, admin))
                for each in page.columns
            ],
        }

    def refused_form_context(self) -> dict[str, Any]:
        """Return the list with the submitted form."""
        return {**self.page_context(), "form_data": self.body_data()}

    def csv_response(self, rows: list[dict[str, Any]]) -> HttpResponseBase:
        admin = self.model_admin
        head = list(rows[0]) if rows else list(admin.list_display)
        name = f"{admin.path.replace('/', '-')}.csv"
        chunks = csv_export.csv_chunks(head, map(dict.values, rows))
        return csv_export.csv_response(name, chunks)

    # Changes.

    def post(self, request: Request) -> Answer:
        """Run an action on chosen rows, or create a row."""
        form = self._form_fields()
        name = request.query_params.get("action") or form.get("action")
        if name == EXPORT:
            return self._export(self._chosen_ids())
        if name:
            return self._run_bulk(name)
        admin = self.model_admin
        if admin.create_schema is None and not admin.can_add:
            self.require("change")
            self.body_data()  # An unreadable body is reported first.
            raise Invalid("Name an action: ?action=…", param="action")
        self.require("add")
        return self._create() if admin.create_schema is not None else self._add()

    def _create(self) -> Answer:
        admin, request = self.model_admin, self.request._request
        row = admin.create(request, self.parse_body(admin.create_schema))
        return self.confirm_change(
            None if self.wants_html else admin.created_data(request, row),
            message=admin.created_message(row),
            redirect_to=admin.row_address(row),
            status=admin.create_status,
            is_new=True,
        )

    def _add(self) -> Answer:
        row = save_form(self, None)
        return self.respond(self.serialize_row(row), status=201)

    def _chosen_ids(self) -> list[str]:
        if self.is_form:
            form: Any = self.request.data
            ids = form.getlist(helpers.ACTION_CHECKBOX_NAME)
        else:
            ids = self.parse_body(ChosenRows).ids
        if not ids:
            raise Invalid("Choose at least one row", param="ids")
        if len(ids) > MAX_CHOSEN:
            raise Invalid(f"Choose at most {MAX_CHOSEN} rows", param="ids")
        return [str(each) for each in ids]

    def _run_bulk(self, name: str) -> Answer:
        actions = self.model_admin.bulk_actions()
        if name not in actions:
            known = ", ".join([*actions, EXPORT])
            raise Invalid(f"'action' must be one of {known}", param="action")
        self.require(actions[name].permission)
        ids = self._chosen_ids()
        results = [self._run_on(actions[name], key) for key in ids]
        changed = sum(each.is_changed for each in results)
        errors = list(dict.fromkeys(each.error for each in results if each.error))
        message = f"{actions[name].label}: {changed} of {len(ids)} changed"
        return self.confirm_change(
            ActionResultList(data=results),
            message=". ".join([message, *errors[:3]]),
            redirect_to=self.request._request.get_full_path(),
            is_bad=bool(errors),
        )

    def _run_on(self, action: RowAction, id: str) -> ActionResult:
        try:
            row = self.find_row(id)
            outcome = action.run_recorded(self.model_admin, self.request._request, row)
        except CoulisseError as exc:
            return ActionResult(id=id, is_changed=False, error=str(exc))
        return ActionResult(id=id, is_changed=outcome.is_changed)

    def _export(self, ids: list[str]) -> HttpResponseBase:
        rows = self.model_admin.prepare_rows(
            self.request._request, [self.find_row(key) for key in ids]
        )
        schema = self.model_admin.detail_schema
        data = [self.model_admin.serialize_row(row, schema) for row in rows]
        return self.csv_response(data)


class DetailView(ModelView):
    """A row: `GET`, and `PATCH` or `DELETE` if the declaration allows them."""

    permissions: ClassVar[dict[str, str]] = {"GET": "view", "DELETE": "view"}

    @property
    def template(self) -> str:  # type: ignore[override]  # of the declaration
        return str(self.model_admin.get_detail_template(self.request._request))

    @property
    def breadcrumbs(self) -> list[tuple[str, str]]:  # type: ignore[override]
        return [(self.model_admin.title, self.model_admin.address)]

    def get(self, request: Request, id: str) -> Answer:
        """Show a row."""
        admin = self.model_admin
        if self.wants_html and admin.is_editable:
            return render_form(self, id)
        row = admin.get_row(request._request, id)
        if not self.wants_html:
            return self.respond(admin.serialize_row(row, admin.detail_schema))
        self.title = admin.row_title(row)
        return self.respond({}, page=lambda: self._page_context(row))

    def _page_context(self, row: Any) -> dict[str, Any]:
        admin, request = self.model_admin, self.request._request
        return {
            "admin": admin,
            "row": row,
            "address": admin.row_address(row),
            "sections": admin.sections(row),
            "row_actions": admin.row_actions_for(request, row),
            **admin.detail_context(request, row),
        }

    def refused_form_context(self) -> dict[str, Any]:
        """Return the row, and the submitted values in `form_data`."""
        row = self.model_admin.get_row(self.request._request, self.kwargs["id"])
        self.title = self.model_admin.row_title(row)
        return {**self._page_context(row), "form_data": self.body_data()}

    def body_data(self) -> Any:
        """Return the body; empty fields of a form clear those that can be."""
        data, fields = super().body_data(), self._form_fields()
        names = self.model_admin.clearable_fields
        cleared = {name: None for name in names if fields.get(name) == ""}
        return {**data, **cleared} if cleared else data

    def post(self, request: Request, id: str) -> Answer:
        """Save the form of the page."""
        return render_form(self, id)

    def patch(self, request: Request, id: str) -> Answer:
        """Change the fields in the body."""
        if self.model_admin.update_method == "patch":
            return self.put(request, id)
        row = save_form(self, self.find_row(id))
        return self.respond(self.serialize_row(row))

    def put(self, request: Request, id: str) -> Answer:
        """Make the changes in the body."""
        admin = self.model_admin
        body = self.parse_body(admin.update_schema)
        row = admin.update(request._request, self.find_row(id), body)
        return self.confirm_change(
            self.serialize_row(row), message="Saved", redirect_to=admin.row_address(row)
        )

    def delete(self, request: Request, id: str) -> Answer:
        """Run the action that stands for a deletion."""
        admin = self.model_admin
        action = admin.row_actions()[admin.delete_action]
        return run_action(self, action, id, admin.delete_response)


class ActionView(ModelView):
    """An action on a row."""

    row_action: ClassVar[Any] = None
    """A `RowAction`."""
    permissions: ClassVar[dict[str, str]] = {"POST": "view"}

    def post(self, request: Request, id: str) -> Answer:
        """Run the action."""
        return run_action(self, self.row_action, id)


class AddView(ModelView):
    """The form of a new row."""

    renderer_classes = [HtmlRenderer]
    permissions: ClassVar[dict[str, str]] = {"GET": "add", "POST": "add"}

    def get(self, request: Request) -> HttpResponseBase:
        return render_form(self, None)

    post = get


class DeleteView(ModelView):
    """The confirmation of a deletion."""

    renderer_classes = [HtmlRenderer]
    permissions: ClassVar[dict[str, str]] = {"GET": "delete", "POST": "delete"}

    def get(self, request: Request, id: str) -> HttpResponseBase:
        response: HttpResponse = self.model_admin.delete_view(request._request, id)
        return rendered(response)

    post = get


def run_action(
    view: ModelView, action: RowAction, id: str, schema: Schema | None = None
) -> Answer:
    """Run an action on a row; a browser returns to the row, with the error if any."""
    admin, request = view.model_admin, view.request._request
    view.require(action.permission)
    row = view.find_row(id)
    body = None if action.body is None else view.parse_body(action.body)
    try:
        outcome = action.run_recorded(admin, request, row, body)
    except CoulisseError as exc:
        if not view.wants_html:
            raise
        messages.error(request, str(exc))
        address = view.next_address() or admin.row_address(row)
        return HttpResponseRedirect(address, status=303)
    done = f"{action.label}: done" if outcome.is_changed else "Nothing to change"
    if outcome.data is not None:
        return view.confirm_change(
            outcome.data,
            message=outcome.message or done,
            redirect_to=view.next_address() or admin.address,
            status=action.status,
        )
    shown = outcome.row or admin.find_row(request, str(row.pk))
    return view.confirm_change(
        None if view.wants_html else view.serialize_row(shown, schema),
        message=outcome.message or done,
        redirect_to=view.next_address() or admin.row_address(shown),
        status=action.status,
    )
