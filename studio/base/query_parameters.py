"""What addresses are asked with, behind their question marks."""

from typing import Any

from core.errors import Invalid
from studio.base.views import StudioView


def query_choice(face: StudioView, name: str, known: tuple[str, ...]) -> Any:
    """Return one of a few words from the query, or None; raises `Invalid`."""
    given = face.request.query_params.get(name)
    if not given:
        return None
    if given not in known:
        raise Invalid(f"'{name}' must be one of {', '.join(known)}", param=name)
    return given
