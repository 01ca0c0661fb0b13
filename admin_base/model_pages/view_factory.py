"""Builds the views of a `StudioModelAdmin`, described for the OpenAPI document."""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from drf_spectacular.utils import (
    OpenApiParameter,
    extend_schema,
    extend_schema_view,
)

from admin_base import serializers
from admin_base.actions import EXPORT, RowAction
from admin_base.model_pages.change_list import CURSOR, LIMIT, SEARCH, SORT
from admin_base.model_pages.model_views import (
    ActionView,
    AddView,
    DeleteView,
    DetailView,
    ListView,
    ModelView,
)
from admin_base.serializers import ActionResultList, ChosenRows

PARAMETER = re.compile(r"<\w+:(\w+)>")


def build_views(admin: Any, path: str) -> SimpleNamespace:
    model_name, one = admin.model.__name__, str(admin.opts.verbose_name)
    parameters = [
        OpenApiParameter(name, str, description=text)
        for name, text in admin.detail_parameters.items()
    ]
    detail = {"get": _described(f"Show one {one}", admin, parameters=parameters)}
    if admin.is_editable:
        detail["post"] = extend_schema(exclude=True)
        detail["patch"] = _described(f"Change one {one}", admin, admin.form_schema)
    if admin.update_schema is not None:
        describe = _described(f"Change one {one}", admin, admin.update_schema)
        detail[admin.update_method] = describe
    if admin.delete_action:
        action = admin.row_actions()[admin.delete_action]
        detail["delete"] = _described(
            f"{action.label} one {one}", admin, answer=admin.delete_response
        )
    listing = {"get": _describe_list(admin, path), "post": _describe_post(admin, path)}
    return SimpleNamespace(
        list=build_view(f"{model_name}List", ListView, admin, listing),
        detail=build_view(f"{model_name}Detail", DetailView, admin, detail),
        add=build_view(f"{model_name}Add", AddView, admin, {}),
        delete=build_view(f"{model_name}Delete", DeleteView, admin, {}),
        actions={
            name: _action_view(admin, action)
            for name, action in admin.row_actions().items()
        },
    )


def _action_view(admin: Any, action: RowAction) -> Any:
    summary = f"{action.label} one {admin.opts.verbose_name}"
    responses = {action.status: action.response or admin.detail_schema}
    post = extend_schema(summary=summary, request=action.body, responses=responses)
    name = action.name.title()
    return build_view(name, ActionView, admin, {"post": post}, row_action=action)


def build_view(
    name: str,
    base: type[ModelView],
    admin: Any,
    methods: dict[str, Any],
    **attributes: Any,
) -> Any:
    """Return the view of a table with these methods, each with its description."""
    allowed = [*(methods or ("get", "post")), "head", "options"]
    attributes |= {"model_admin": admin, "http_method_names": allowed}
    view: Any = type(name, (base,), attributes)
    if methods and admin.is_documented:
        view = extend_schema_view(**methods)(view)
    else:
        view.schema = None
    return view.as_view()


def _described(
    summary: str, admin: Any, body: Any = None, answer: Any = None, parameters: Any = ()
) -> Any:
    responses = {200: answer or admin.detail_schema}
    return extend_schema(
        summary=summary, parameters=parameters, request=body, responses=responses
    )


def _describe_list(admin: Any, path: str) -> Any:
    given = PARAMETER.findall(path)
    summary = " by ".join([f"List {admin.opts.verbose_name_plural}", *given])
    default = admin.list_response or serializers.page_schema(admin.list_schema)
    return extend_schema(
        operation_id=f"{_operation_prefix(admin, path)}_list",
        summary=summary,
        parameters=[it for it in list_parameters(admin) if it.name not in given],
        responses=admin.parent_paths.get(path) or default,
    )


def _describe_post(admin: Any, path: str) -> Any:
    one, many = admin.opts.verbose_name, admin.opts.verbose_name_plural
    names = list(admin.bulk_actions())
    can_create = admin.create_schema is not None or admin.can_add
    if can_create and path == next(iter(admin.parent_paths), admin.path):
        return extend_schema(
            operation_id=admin.create_operation,
            summary=f"Create one {one}",
            description=f"With `?action=` one of {', '.join([*names, EXPORT])}, "
            f"and `ids` in the body, the action runs on these {many} instead.",
            request=admin.create_schema or admin.form_schema,
            responses={
                admin.create_status: admin.create_response or admin.detail_schema
            },
        )
    if path in admin.parent_paths:
        return extend_schema(exclude=True)
    return extend_schema(
        operation_id=f"{_operation_prefix(admin, path)}_run_action",
        summary=f"Run an action on chosen {many}",
        parameters=[
            OpenApiParameter("action", str, enum=[*names, EXPORT], required=True)
        ],
        request=ChosenRows,
        responses=ActionResultList,
    )


def _operation_prefix(admin: Any, path: str) -> str:
    plain = re.sub("<.*?>/", "", path)
    is_ambiguous = path != admin.path == plain
    name = PARAMETER.sub(r"\1", path) if is_ambiguous else plain
    return name.replace("/", "_").replace("-", "_")


def list_parameters(admin: Any) -> Iterator[OpenApiParameter]:
    for item in admin.get_list_filter(None):
        yield from item.describe(admin.model)
    if admin.search_fields:
        yield OpenApiParameter(SEARCH, str, description="A text to search for.")
    fields = admin.get_sortable_by(None)
    sorts = [sign + name for name in fields for sign in ("", "-")]
    yield OpenApiParameter(SORT, str, enum=sorts)
    yield OpenApiParameter(CURSOR, str, description="The last_id of a page.")
    maximum = f"{admin.list_per_page} by default, at most {admin.max_limit}."
    yield OpenApiParameter(LIMIT, int, description=maximum)
