"""`/`: redirects browsers to the studio."""

from django.http import Http404, HttpRequest, HttpResponseRedirect

STUDIO_URL = "/admin/"
MEDIA_TYPES = ["application/json", "text/html"]
"""Clients without a preference get the error for programs."""


async def redirect_to_studio(request: HttpRequest) -> HttpResponseRedirect:
    """Redirect a browser to the studio; other clients get 404."""
    is_looking = request.method in ("GET", "HEAD")
    if is_looking and request.get_preferred_type(MEDIA_TYPES) == "text/html":
        answer = HttpResponseRedirect(STUDIO_URL)
        answer["Vary"] = "Accept"
        return answer
    raise Http404
