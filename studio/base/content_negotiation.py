"""Choose the format of a response by the `Accept` header (RFC 9110, 12.5).

REST framework's own negotiation ignores `q` and goes by how specific a type is.
"""

from collections.abc import Iterable, Sequence

from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

ANY_TYPE = "*/*"
MAX_RANGES = 64
"""Ranges read from one header; real clients send fewer."""

Preference = tuple[float, int]
"""The weight of a media type, and how specifically the header names it."""


class ContentNegotiation(DefaultContentNegotiation):
    """Chooses by weight, then by specificity, then by the order of the renderers."""

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        """Return the renderer and its media type; raises `NotAcceptable`."""
        requested = format_suffix or request.query_params.get("format")
        candidates = [
            each for each in renderers if not requested or each.format == requested
        ]
        ranges = parse_accept(request.headers.get("Accept") or ANY_TYPE)
        weighted = [
            (preference_for(ranges, each.media_type), each) for each in candidates
        ]
        acceptable = [pair for pair in weighted if pair[0][0] > 0]
        if not acceptable:
            types = ", ".join(each.media_type for each in renderers)
            raise NotAcceptable(
                f"Available formats: {types}. 'Accept' allows none of them."
            )
        _, chosen = max(acceptable, key=lambda pair: pair[0])
        return chosen, chosen.media_type


def parse_accept(header: str) -> list[tuple[str, float]]:
    """Return the media ranges of a header, each with its weight."""
    return [
        _parse_range(each) for each in header.split(",")[:MAX_RANGES] if each.strip()
    ]


def _parse_range(text: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            return name, _parse_weight(value.strip())
    return name, 1.0


def _parse_weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return weight if 0 <= weight <= 1 else 0.0


def preference_for(ranges: Sequence[tuple[str, float]], media_type: str) -> Preference:
    """Return the preference for a type, from its most specific range."""
    family = f"{media_type.partition('/')[0]}/*"
    for narrow, name in ((2, media_type), (1, family), (0, ANY_TYPE)):
        weights = [weight for each, weight in ranges if each == name]
        if weights:
            return max(weights), narrow
    return 0.0, 0


def prefers_html(header: str) -> bool:
    """Return whether the client prefers pages to data, as browsers do."""
    ranges = parse_accept(header)
    page = preference_for(ranges, "text/html")
    return (
        page[1] == 2
        and page[0] > 0
        and page >= preference_for(ranges, "application/json")
    )
