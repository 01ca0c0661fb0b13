"""All paths of the server, except those of the studio (`studio_urls`)."""

from django.urls import path

from gateway import health, metrics, root, webhooks
from gateway.api import api
from gateway.auth import oidc_login
from gateway.mcp_oauth import sign_in_views
from gateway.mcp_server import views

urlpatterns = [
    path("", root.redirect_to_studio),
    # Identity providers redirect to addresses under /v1/; all others are the API's.
    path("v1/", oidc_login.serve, name=oidc_login.URL_NAME),
    path("v1/", api.urls),
    path("v1/<path:path>", oidc_login.serve),
    path("hooks/<path:path>", webhooks.serve_webhook),
    path("mcp", views.serve_mcp),
    path("mcp/<str:server>/connect", sign_in_views.connect),
    path("mcp/<str:server>/connect-link", sign_in_views.create_link),
    path("mcp/<str:server>/oauth/callback", sign_in_views.handle_callback),
    path("health/live", health.is_live),
    path("health/ready", health.is_ready),
    path("metrics", metrics.serve_metrics),
]
