"""Query parameters of the studio's addresses."""

from typing import Any

from core.errors import Invalid
from studio.base.views import StudioView


def query_choice(view: StudioView, name: str, choices: tuple[str, ...]) -> Any:
    """Return the parameter's value, one of `choices`, or None; raises `Invalid`."""
    value = view.request.query_params.get(name)
    if not value:
        return None
    if value not in choices:
        raise Invalid(f"'{name}' must be one of {', '.join(choices)}", param=name)
    return value
