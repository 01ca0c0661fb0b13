"""`/`: whoever opens the server's address in a browser means the studio."""

from django.http import Http404, HttpRequest, HttpResponseRedirect

STUDIO_URL = "/admin/"
MEDIA_TYPES = ["application/json", "text/html"]
"""Where a client likes both as much, it is told as programs are."""


async def redirect_to_studio(request: HttpRequest) -> HttpResponseRedirect:
    """Lead a browser to the studio; to others there is nothing here."""
    is_looking = request.method in ("GET", "HEAD")
    if is_looking and request.get_preferred_type(MEDIA_TYPES) == "text/html":
        answer = HttpResponseRedirect(STUDIO_URL)
        answer["Vary"] = "Accept"
        return answer
    raise Http404
