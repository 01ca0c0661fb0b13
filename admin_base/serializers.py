"""The data of rows for scripts, from the declaration of a `StudioModelAdmin`."""

from collections.abc import Iterable
from datetime import datetime
from functools import cache
from typing import Any, Literal

from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model
from pydantic import BaseModel, create_model
from rest_framework import serializers

Schema = type[BaseModel] | type[serializers.BaseSerializer[Any]]


def serialize(schema: Schema, row: Any) -> dict[str, Any]:
    if issubclass(schema, BaseModel):
        return schema.model_validate(row, from_attributes=True).model_dump(mode="json")
    return dict(schema(row).data)


def build_serializer(
    model_admin: Any, names: Iterable[str], suffix: str = "", *, key: bool = True
) -> type[serializers.BaseSerializer[Any]]:
    """Return a serializer with these fields and columns, and by default the key."""
    model, extra = model_admin.model, {}
    fields = list(dict.fromkeys([*([model._meta.pk.name] if key else []), *names]))
    for name in fields:
        if not _is_field(model, name):
            extra[name] = _ColumnField(model_admin, name)
    meta = type("Meta", (), {"model": model, "fields": fields})
    bases = (serializers.ModelSerializer,)
    name = f"{model.__name__}{suffix}"
    return type(name, bases, {**extra, "Meta": meta})


class _ColumnField(serializers.CharField):
    """The value of a column that is a method or property, as text."""

    def __init__(self, model_admin: Any, name: str) -> None:
        self.model_admin, self.column = model_admin, name
        super().__init__(read_only=True, allow_null=True, source="*")

    def __deepcopy__(self, memo: Any) -> "_ColumnField":
        return type(self)(self.model_admin, self.column)

    def to_representation(self, value: Any) -> Any:
        method = getattr(self.model_admin, self.column, None)
        shown = method(value) if method else getattr(value, self.column)
        if isinstance(shown, datetime):
            return serializers.DateTimeField().to_representation(shown)
        return shown if shown is None else str(shown() if callable(shown) else shown)


def _is_field(model: type[Model], name: str) -> bool:
    try:
        model._meta.get_field(name)
    except FieldDoesNotExist:
        return False
    return True


ListObject: Any = Literal["list"]


@cache
def page_schema(row: Schema) -> type[BaseModel] | Any:
    """Return the schema of a page of rows, for the OpenAPI document."""
    if issubclass(row, BaseModel):
        return create_model(
            f"{row.__name__}List",
            __doc__="A page of a list.",
            object=(ListObject, "list"),
            data=(list[row], ...),  # type: ignore[valid-type]  # built at runtime
            has_more=(bool, ...),
            last_id=(str | None, ...),
        )
    name = row.__name__.removesuffix("Serializer")
    fields = {
        "object": serializers.CharField(default="list"),
        "data": row(many=True),
        "has_more": serializers.BooleanField(),
        "last_id": serializers.CharField(allow_null=True),
    }
    return type(f"{name}List", (serializers.Serializer,), fields)


class ChosenRows(BaseModel):
    """The rows of a bulk action."""

    ids: list[str]


class ActionResult(BaseModel):
    """What a bulk action did to a row."""

    id: str
    is_changed: bool
    error: str | None = None


class ActionResultList(BaseModel):
    """What a bulk action did to each row."""

    object: Literal["list"] = "list"
    data: list[ActionResult]
    has_more: Literal[False] = False
