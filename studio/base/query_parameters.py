"""Query parameters of the studio's addresses."""

from typing import Any

from core.errors import Invalid
from studio.base.views import StudioView


def query_choice(face: StudioView, name: str, known: tuple[str, ...]) -> Any:
    """Return the parameter's value, one of `choices`, or None; raises `Invalid`."""
    given = face.request.query_params.get(name)
    if not given:
        return None
    if given not in known:
        raise Invalid(f"'{name}' must be one of {', '.join(known)}", param=name)
    return given
