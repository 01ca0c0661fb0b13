"""Django's forms for the rows of a `StudioModelAdmin`, for browsers and for scripts."""

from typing import Any

from django.db import transaction
from django.forms import ModelMultipleChoiceField, model_to_dict
from django.http.response import HttpResponse, HttpResponseBase

from core.errors import Denied, Invalid


def render_form(view: Any, id: str | None) -> HttpResponseBase:
    """Return Django's form for a row, or its response to a submitted one."""
    admin, request = view.model_admin, view.request._request
    key = None if id is None else str(admin.find_row(request, id).pk)
    response: HttpResponse = admin.changeform_view(request, key)
    return rendered(response)


def rendered(response: HttpResponse) -> HttpResponse:
    return response.render() if hasattr(response, "render") else response


def save_form(view: Any, row: Any) -> Any:
    """Save the fields of the body through the form of the page; raises `Invalid`."""
    data = view.body_data()
    if not isinstance(data, dict):
        raise Invalid("The body must be an object")
    admin, request = view.model_admin, view.request._request
    if row is not None and not admin.has_change_permission(request, row):
        raise Denied("You cannot change this one; its page says why")
    form_class = admin.get_form(request, row, change=row is not None)
    unknown = data.keys() - form_class.base_fields.keys()
    if unknown:
        raise Invalid(f"There is no field '{min(unknown):.80}'", param=min(unknown))
    _check_lists(data, form_class.base_fields)
    before = {} if row is None else _field_values(row, form_class.base_fields)
    form = form_class({**before, **data}, instance=row)
    if not form.is_valid():
        field, errors = next(iter(form.errors.items()))
        raise Invalid(f"{field}: {errors[0]}", param=field)
    with transaction.atomic():
        saved = admin.save_form(request, form, change=row is not None)
        admin.save_model(request, saved, form, change=row is not None)
        form.save_m2m()
        message = admin.construct_change_message(request, form, [], add=row is None)
        log = admin.log_addition if row is None else admin.log_change
        log(request, saved, message)
    return saved


def _field_values(row: Any, names: Any) -> dict[str, Any]:
    """Return the values of a row, as a form would submit them."""
    values = model_to_dict(row, names)
    return {
        name: [each.pk for each in value] if isinstance(value, list) else value
        for name, value in values.items()
    }


def _check_lists(data: dict[str, Any], fields: Any) -> None:
    """Raise `Invalid` for a value of many objects that is no list."""
    for name, value in data.items():
        is_many = isinstance(fields[name], ModelMultipleChoiceField)
        if is_many and value is not None and not isinstance(value, list):
            # Django's form fails on a number.
            raise Invalid(f"{name}: must be a list", param=name)
