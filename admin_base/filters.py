"""Filters of lists, in the address and as a form above the list.

In `list_filter`, the name of a field stands for the filter of its kind: a choice, a
range of time, a text. For others, name a class:

    list_filter = ["state", TextFilter.of("actor"), TimeFilter.of("created_at")]
"""

from calendar import monthrange
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, ClassVar, Self

from django.contrib.admin import ListFilter
from django.db import models
from django.db.models import QuerySet
from django.http import HttpRequest
from drf_spectacular.utils import OpenApiParameter

from core.errors import Invalid
from core.text import time_parsing
from core.validation import storable_values

TIME_PARAMETERS = ("period", "from", "to", "since")
MONTHS_SHOWN = 12
PERIODS = ("15min", "1h", "24h", "7d", "30d", "90d")


class Filter(ListFilter):
    """A filter with one query parameter."""

    parameter: ClassVar[str] = ""
    field: ClassVar[str] = ""
    """The field, or a path to one; by default the parameter."""
    description: ClassVar[str] = ""
    template = "admin_base/filters/text.html"
    used_parameters: Any

    def __init__(
        self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any
    ) -> None:
        self.title = self.title or self.parameter.replace("_", " ").capitalize()
        self.path = self.field or self.parameter
        super().__init__(request, params, model, model_admin)
        self.model_admin = model_admin
        for name in self.expected_parameters():
            if name in params:
                self.used_parameters[name] = _checked(name, params.pop(name)[-1])

    @classmethod
    def of(cls, parameter: str, **attributes: Any) -> type[Self]:
        """Return the filter of a parameter, with further class attributes."""
        attributes.setdefault("title", "")
        return type(cls.__name__, (cls,), {"parameter": parameter, **attributes})

    def expected_parameters(self) -> list[str | None]:
        return [self.parameter]

    def suggestions(self) -> Sequence[str]:
        """Return values that the form of the page suggests."""
        return ()

    def has_output(self) -> bool:
        return True

    def choices(self, changelist: Any) -> Iterator[Any]:
        return iter(())

    @property
    def value(self) -> str:
        """The given value, or ""."""
        return str(self.used_parameters.get(self.parameter, ""))

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return self.apply(queryset, self.value) if self.value else queryset

    def apply(self, queryset: QuerySet[Any], value: Any) -> QuerySet[Any]:
        return queryset.filter(**{self.path: value})

    @classmethod
    def describe(cls, model: type[models.Model]) -> list[OpenApiParameter]:
        """Return the parameters for the OpenAPI document."""
        return [OpenApiParameter(cls.parameter, str, description=cls.description)]


class TextFilter(Filter):
    """Rows with a text in a field, ignoring case, among the first rows of the list.

    No index serves it, and a search for a text that is nowhere would read the whole
    table: 1.5 s of a million rows.
    """

    max_searched: ClassVar[int] = 50_000
    """The rows that match all other filters, of which these are searched."""

    def apply(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        order = str(self.model_admin.get_ordering(None)[0])
        name = order.removeprefix("-")
        values = queryset.order_by(order).values_list(name, flat=True)
        for last in values[self.max_searched - 1 : self.max_searched]:
            step = "gte" if order.startswith("-") else "lte"
            queryset = queryset.filter(**{f"{name}__{step}": last})
        return queryset.filter(**{f"{self.path}__icontains": value})

    @classmethod
    def describe(cls, model: type[models.Model]) -> list[OpenApiParameter]:
        (parameter,) = super().describe(model)
        parameter.description += f" Of the first {cls.max_searched:,} rows of the list."
        return [parameter]


class ExactFilter(Filter):
    """Rows whose field has exactly this value."""

    def apply(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        try:
            queryset.model._meta.get_field(self.path).clean(value, None)
        except Exception as exc:
            raise Invalid(
                f"'{self.parameter}' is not valid: {value:.80}", param=self.parameter
            ) from exc
        return super().apply(queryset, value)


class ChoiceFilter(Filter):
    """Rows whose field has one of a few values."""

    options: Sequence[str] = ()
    """The values, by default those of the field; a property may compute them."""
    empty_label = "all"
    """The label of no choice; "" if there is always one."""
    template = "admin_base/filters/choice.html"

    @property
    def pairs(self) -> list[tuple[str, str]]:
        if self.options:
            return [(value, value.replace("_", " ")) for value in self.options]
        return field_choices(self.model_admin.model, self.path)

    def apply(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        values = [name for name, _ in self.pairs]
        if value not in values:
            raise Invalid(
                f"'{self.parameter}' must be one of {', '.join(values)}",
                param=self.parameter,
            )
        return super().apply(queryset, value)

    @classmethod
    def describe(cls, model: type[models.Model]) -> list[OpenApiParameter]:
        values = list(cls.options) if isinstance(cls.options, Sequence) else []
        if not cls.options:
            pairs = field_choices(model, cls.field or cls.parameter)
            values = [value for value, _ in pairs]
        return [
            OpenApiParameter(
                cls.parameter, str, enum=values or None, description=cls.description
            )
        ]


class FlagFilter(Filter):
    """A checkbox; subclasses say what it does."""

    template = "admin_base/filters/flag.html"

    @property
    def is_on(self) -> bool:
        return self.value in ("1", "true", "on")

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return self.apply_flag(queryset, self.is_on)

    def apply_flag(self, queryset: Any, is_on: bool) -> Any:
        return queryset.filter(**{self.path: True}) if is_on else queryset

    @classmethod
    def describe(cls, model: type[models.Model]) -> list[OpenApiParameter]:
        return [OpenApiParameter(cls.parameter, bool, description=cls.description)]


class TimeFilter(Filter):
    """Rows of a range of time, which the menu keeps from list to list.

    The address has `period=7d`, or `from` and `to`; `since` takes either form.
    """

    template = "admin_base/filters/time.html"
    periods = PERIODS

    def expected_parameters(self) -> list[str | None]:
        return list(TIME_PARAMETERS)

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        start, end = parse_range(self.used_parameters, datetime.now(UTC))
        if start is not None:
            queryset = queryset.filter(**{f"{self.parameter}__gte": start})
        if end is not None:
            queryset = queryset.filter(**{f"{self.parameter}__lte": end})
        return queryset

    @property
    def given(self) -> dict[str, str]:
        """The given values; a duration in `since` is shown as the period."""
        since = self.used_parameters.get("since", "")
        name = "period" if since[-1:].isalpha() else "from"
        return {name: since, **self.used_parameters}

    @property
    def dates(self) -> list[tuple[str, str, str]]:
        """The days of the chosen month, or else the last months: label, from, to."""
        try:
            start, end = (date.fromisoformat(self.given[it]) for it in ("from", "to"))
        except (KeyError, ValueError):
            start = end = datetime.now(UTC).date()
        if (start, end) == month_of(start):
            days = [start.replace(day=number + 1) for number in range(end.day)]
            return [(f"{day:%-d %b}", f"{day}", f"{day}") for day in days]
        months = [month_of(end)]
        while len(months) < MONTHS_SHOWN:
            months.append(month_of(months[-1][0] - timedelta(days=1)))
        return [(f"{each[0]:%b %Y}", f"{each[0]}", f"{each[1]}") for each in months]

    @classmethod
    def describe(cls, model: type[models.Model]) -> list[OpenApiParameter]:
        texts = {
            "period": "A duration until now, such as `24h` or `7d`.",
            "from": "`2026-12-31`, or a time.",
            "to": "`2026-12-31` includes that day; or a time.",
            "since": "`2026-12-31`, `90d`, `12h`.",
        }
        return [OpenApiParameter(name, str, description=texts[name]) for name in texts]


def month_of(day: date) -> tuple[date, date]:
    """Return the first and the last day of a month."""
    return day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1])


def parse_range(
    given: Mapping[str, str], now: datetime
) -> tuple[datetime | None, datetime | None]:
    """Return the start and the end of a range of time; raises `Invalid`."""
    past = time_parsing.parse_past
    names = [name for name in ("period", "from", "since") if given.get(name)]
    starts = [_parse(past, given[name], now, name) for name in names]
    end = given.get("to")
    return (
        max(starts, default=None),
        _parse(time_parsing.parse_future, end, now, "to") if end else None,
    )


def _parse(parse: Any, text: str, now: datetime, param: str) -> datetime:
    try:
        result: datetime = parse(text, now)
    except Invalid as exc:
        exc.param = param
        raise
    return result


def _checked(name: str, value: str) -> str:
    problem = storable_values.describe_problem(value)
    if problem is not None:
        raise Invalid(f"'{name}' {problem}", param=name)
    return value


def field_choices(model: type[models.Model], path: str) -> list[tuple[str, str]]:
    """Return the choices of a field, and those of a boolean."""
    field = model._meta.get_field(path) if "__" not in path else None
    if isinstance(field, models.BooleanField):
        return [("True", "Yes"), ("False", "No")]
    pairs = getattr(field, "flatchoices", ())
    return [(str(value), str(label)) for value, label in pairs]


def resolve(item: Any, model: type[models.Model]) -> type[Filter]:
    """Return the filter class of an item of `list_filter`."""
    if not isinstance(item, str):
        return item  # type: ignore[no-any-return]  # a filter class
    field = model._meta.get_field(item)
    if isinstance(field, models.DateTimeField):
        return TimeFilter.of(item)
    if field_choices(model, item):
        return ChoiceFilter.of(item)
    return ExactFilter.of(item)
