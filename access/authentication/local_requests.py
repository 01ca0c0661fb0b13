"""Detects requests from this machine, as far as possible.

A reverse proxy on this machine makes all clients look local. Most proxies send the
client's address or the requested host. A proxy that sends neither looks like a browser,
so a studio behind any proxy needs `auth.admin`.
"""

from django.core.handlers.asgi import ASGIRequest

from core.network.hosts import PORT_PATTERN
from core.network.loopback import is_loopback

PROXY_HEADERS = (
    "cf-",
    "fastly-",
    "fly-",
    "forwarded",
    "tailscale-",
    "true-client-ip",
    "via",
    "x-client-ip",
    "x-cluster-",
    "x-envoy-",
    "x-forwarded",
    "x-original-",
    "x-proxyuser-ip",
    "x-real-ip",
    "x-scheme",
)
"""Prefixes of header names that browsers do not send."""


def is_local(request: ASGIRequest) -> bool:
    """Return whether a browser on this machine sends the request."""
    client = request.scope.get("client")
    if client is None or not is_loopback(client[0]):
        return False
    if request.scope.get("http_version") == "1.0":
        return False  # Sent by proxies with default settings; never by browsers.
    if is_forwarded(request):
        return False
    return is_loopback(
        PORT_PATTERN.sub("", request.headers.get("Host", "")).strip("[]")
    )


def is_forwarded(request: ASGIRequest) -> bool:
    """Return whether a header shows that a proxy sends the request."""
    return any(name.lower().startswith(PROXY_HEADERS) for name in request.headers)
