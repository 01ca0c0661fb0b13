"""Choose the format of a response by the `Accept` header (RFC 9110, 12.5).

REST framework's own negotiation ignores `q` and goes by how specific a type is.
Django's `get_preferred_type` ignores that `q=0` excludes a type.
"""

from collections.abc import Iterable

from django.http.request import MediaType
from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

MAX_RANGES = 64
"""Ranges read from one header; real clients send fewer."""
NAMED = 2
"""How specific a range is that names a type."""


class ContentNegotiation(DefaultContentNegotiation):
    """Chooses by weight, then by specificity, then by the order of the renderers."""

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        """Return the renderer and its media type; raises `NotAcceptable`."""
        header = request.headers.get("Accept") or "*/*"
        requested = format_suffix or request.query_params.get("format")
        acceptable = [
            (preference, each)
            for each in renderers
            if not requested or each.format == requested
            if (preference := _preference_for(header, each.media_type))[0]
        ]
        if not acceptable:
            types = ", ".join(each.media_type for each in renderers)
            raise NotAcceptable(
                f"Available formats: {types}. 'Accept' allows none of them."
            )
        _, chosen = max(acceptable, key=lambda pair: pair[0])
        return chosen, chosen.media_type


def _preference_for(header: str, media_type: str) -> tuple[float, int]:
    """Return the weight of a type, and how specifically the header names it."""
    ranges = [MediaType(text) for text in header.split(",")[:MAX_RANGES]]
    found = [each for each in ranges if each.match(media_type)]
    if not found:
        return 0, 0
    best = max(found, key=lambda each: (each.specificity, each.quality))
    return best.quality, best.specificity


def prefers_html(header: str) -> bool:
    """Return whether the client prefers pages to data, as browsers do."""
    weight, specificity = page = _preference_for(header, "text/html")
    is_named = weight > 0 and specificity >= NAMED
    return is_named and page >= _preference_for(header, "application/json")
