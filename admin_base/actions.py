"""Actions on rows: one declaration makes a button, a bulk action and two addresses.

    @action("Revoke", audit="token.revoke", confirm="Clients lose access.")
    def revoke(self, request: HttpRequest, token: ApiToken) -> bool:
        return token.revoke()

The method calls a verb of the model for one row, and returns whether that changed
anything, or an `Outcome`. `actions = ["revoke"]` then offers it to users with the
permission: on the page of a row, for chosen rows of the list, as `POST …/{id}/revoke`,
and as `POST …?action=revoke` with `{"ids": […]}`.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from django.db import transaction
from django.db.models import Model
from django.http import HttpRequest
from pydantic import BaseModel

from admin_base import audit

EXPORT = "export"
Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True)
class Outcome:
    """What an action did to a row."""

    is_changed: bool = True
    details: Mapping[str, Any] = field(default_factory=dict)
    """Details for the audit."""
    message: str = ""
    """What the page says; by default the label of the action and the row."""
    row: Model | None = None
    """The row to show afterwards, if it is another one."""
    target: str = ""
    """How the audit names the row; by default by its key."""
    data: Mapping[str, Any] | None = None
    """The response to scripts, if the row is gone; browsers return to the list."""


@dataclass(frozen=True)
class RowAction:
    """The declaration of an action; as a decorator, it adds itself to the method."""

    label: str
    _: KW_ONLY
    audit: str
    """The name of the action in the audit."""
    permission: str = "change"
    """`change`, `add`, `delete`, `view`, or the full name of a permission."""
    confirm: str = ""
    """A sentence for the user to confirm."""
    is_dangerous: bool = False
    is_available: Callable[[Any], bool] = lambda row: True
    is_bulk: bool = True
    """Whether lists offer it for chosen rows."""
    status: int = 200
    """The status of the response to scripts."""
    body: type[BaseModel] | None = None
    """The body of a request for one row, which `run` receives; None in bulk."""
    response: Any = None
    """The shape of the response, if it is not the row."""
    run: Any = None
    # Django's templates call what they can.
    do_not_call_in_templates: ClassVar[bool] = True

    def __call__(self, method: Method) -> Method:
        declared: Any = method
        declared.row_action = replace(self, run=method)
        return method

    @property
    def name(self) -> str:
        return str(self.run.__name__)

    def run_recorded(
        self, model_admin: Any, request: HttpRequest, row: Any, body: Any = None
    ) -> Outcome:
        """Run the action on a row and record it, in one transaction."""
        with transaction.atomic():
            args = () if self.body is None else (body,)
            result = self.run(model_admin, request, row, *args)
            outcome = result if isinstance(result, Outcome) else Outcome(bool(result))
            if outcome.is_changed and self.audit:
                audit.record(
                    request, self.audit, row, outcome.details, target=outcome.target
                )
        return outcome


action = RowAction
