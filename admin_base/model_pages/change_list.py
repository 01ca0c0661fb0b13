"""One page of a list: found by the last row of the page before, without a count.

An offset would read all rows before the page, and a count all rows. So pages only lead
forward, from `?after=`; the browser goes back.
"""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db.models import F, Model, Q, QuerySet
from django.http import HttpRequest

from admin_base.columns import Column, label_of
from admin_base.filters import TextFilter
from admin_base.query_parameters import check_names, query_int
from core.errors import Invalid
from core.validation import storable_values
from database import keyset

CURSOR, LIMIT, SEARCH, SORT = "after", "limit", "q", "sort"
FORMAT = "format"
MALFORMED_CURSOR = "'after' must be the last_id of the previous page"
COMMON_PARAMETERS = {CURSOR, LIMIT, SORT, FORMAT, "action"}


class Ordering(NamedTuple):
    """The order of a list: by a field, then by the key, in the same direction."""

    field: Any
    """A field of the model."""
    is_descending: bool

    def sorted(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return rows in this order; rows without a value come last."""
        key = "-pk" if self.is_descending else "pk"
        if self.field.primary_key:
            return rows.order_by(key)
        if not self.field.null:
            return rows.order_by(f"{self._sign}{self.field.name}", key)
        name = F(self.field.name)
        by_value = name.desc if self.is_descending else name.asc
        return rows.order_by(by_value(nulls_last=True), key)

    @property
    def _sign(self) -> str:
        return "-" if self.is_descending else ""

    def cursor(self, row: Model) -> str:
        """Return the text that continues after a row."""
        value = "" if self.field.primary_key else self.field.value_from_object(row)
        if isinstance(value, datetime):
            value = value.isoformat()
        return f"{'' if value is None else value}~{row.pk}"

    def after(self, rows: QuerySet[Any], cursor: str) -> QuerySet[Any]:
        """Return the rows after a cursor; raises `Invalid` for a malformed one."""
        text, separator, key_text = cursor.rpartition("~")
        key = _clean(rows.model._meta.pk, key_text if separator else "")
        step = "lt" if self.is_descending else "gt"
        by_key = Q(**{f"pk__{step}": key})
        if self.field.primary_key:
            return rows.filter(by_key)
        name = self.field.name
        if not text and self.field.null:
            return rows.filter(by_key, **{f"{name}__isnull": True})
        value = _clean(self.field, text)
        later = keyset.later_rows(name, (value, key), is_descending=self.is_descending)
        if self.field.null:
            later |= Q(**{f"{name}__isnull": True})
        return rows.filter(later)


def _clean(field: Any, text: str) -> Any:
    try:
        if not text or storable_values.describe_problem(text) is not None:
            raise ValueError
        value = field.clean(text, None)
        if isinstance(value, datetime):
            if value.utcoffset() is None:
                raise ValueError
            # Fails for an instant before the first or after the last year in UTC.
            return value.astimezone(UTC)
    except (ValidationError, ValueError, OverflowError) as exc:
        raise Invalid(MALFORMED_CURSOR, param=CURSOR) from exc
    return value


class KeysetChangeList(ChangeList):
    """Django's change list, with our pages, order and filters."""

    model_admin: Any
    """A `StudioModelAdmin`."""
    list_filter: Any
    sortable_by: Any
    ordering: Ordering
    has_more: bool
    last_id: str | None

    def __init__(self, request: HttpRequest, *args: Any) -> None:
        self.request = request
        super().__init__(request, *args)
        self.title = self.model_admin.title

    def get_filters(self, request: HttpRequest) -> Any:
        """Return the filters; refuse parameters that no filter knows."""
        admin = self.model_admin
        scope = admin.scope(request)
        given = {name: [value] for name, value in scope.items()}
        params = {**dict(request.GET.lists()), **given}
        if self.search_fields:
            params.pop(SEARCH, None)
        specs = [each(request, params, self.model, admin) for each in self.list_filter]
        known = [str(name) for spec in specs for name in spec.expected_parameters()]
        check_names(params.keys() - COMMON_PARAMETERS, [*known, LIMIT, SORT, CURSOR])
        is_active = any(spec.used_parameters.keys() - scope for spec in specs)
        return specs, bool(specs), {}, False, is_active

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: Any = None
    ) -> QuerySet[Any]:
        """Return all rows that match, in order."""
        specs, self.has_filters, _, _, self.has_active_filters = self.get_filters(
            request
        )
        scope = self.model_admin.scope(request)
        self.filter_specs = [each for each in specs if each.parameter not in scope]
        rows: Any = self.root_queryset
        # Those that read the rows come last, when the others have chosen few.
        for spec in sorted(specs, key=lambda it: isinstance(it, TextFilter)):
            rows = spec.queryset(request, rows)
        rows, _ = self.model_admin.get_search_results(request, rows, self.query)
        self.ordering = self._ordering(request)
        rows = self.ordering.sorted(rows)
        return rows if rows.query.select_related else self.apply_select_related(rows)

    def _ordering(self, request: HttpRequest) -> Ordering:
        default = str(self.model_admin.get_ordering(request)[0])
        name = request.GET.get(SORT) or default
        field_name = name.removeprefix("-")
        if field_name not in self.sortable_by:
            raise Invalid(
                f"'{SORT}' must be one of {', '.join(self.sortable_by)}; "
                "a minus before it sorts in descending order",
                param=SORT,
            )
        try:
            field = self.lookup_opts.get_field(field_name)
        except FieldDoesNotExist:
            field = self.lookup_opts.pk
        return Ordering(field, name.startswith("-"))

    def get_results(self, request: HttpRequest) -> None:
        """Read the rows of the page, and whether there are more."""
        admin, cursor = self.model_admin, request.GET.get(CURSOR)
        limit = query_int(
            request.GET, LIMIT, default=self.list_per_page, maximum=admin.max_limit
        )
        rows = self.ordering.after(self.queryset, cursor) if cursor else self.queryset
        page = list(rows[: limit + 1])
        self.result_list = admin.prepare_rows(request, page[:limit])
        self.has_more = len(page) > limit
        self.last_id = self.ordering.cursor(self.result_list[-1]) if page else None
        self.result_count, self.full_result_count = len(self.result_list), None
        self.show_full_result_count = self.can_show_all = False
        self.multi_page, self.show_admin_actions = self.has_more, True
        self.paginator = None

    @property
    def columns(self) -> list[Column]:
        """The columns with their labels, and how each is sorted by."""
        names = self.model_admin.get_list_display(self.request)
        return [self._column(name) for name in names]

    def _column(self, name: str) -> Column:
        admin = self.model_admin
        by = self.get_ordering_field(name)
        sort = str(by) if by in self.sortable_by else ""
        direction = ""
        if sort == self.ordering.field.name:
            direction = "descending" if self.ordering.is_descending else "ascending"
        sign = "" if direction == "descending" else "-"
        method = getattr(admin, name, None)
        css = admin.column_classes.get(name, getattr(method, "css", ""))
        return Column(name, label_of(name, admin), css, sort and sign + sort, direction)
