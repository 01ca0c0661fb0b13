"""`/`: redirects browsers to the studio."""

from django.http import Http404, HttpRequest, HttpResponseRedirect

STUDIO_URL = "/admin/"
MEDIA_TYPES = ["application/json", "text/html"]
"""Clients without a preference get the error for programs."""


async def redirect_to_studio(request: HttpRequest) -> HttpResponseRedirect:
    """Redirect a browser to the studio; other clients get 404."""
    is_read = request.method in ("GET", "HEAD")
    if is_read and request.get_preferred_type(MEDIA_TYPES) == "text/html":
        response = HttpResponseRedirect(STUDIO_URL)
        response["Vary"] = "Accept"
        return response
    raise Http404
