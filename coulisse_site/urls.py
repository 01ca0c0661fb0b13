"""Every path the server answers, but those of the studio (`studio_urls`)."""

from django.urls import path

from gateway import front, health, hooks, house, login, mcp_sign_in
from gateway.api import api

urlpatterns = [
    path("", front.serve),
    # Where logins come back to, if anywhere; else what is not of the API.
    path("v1/", login.serve, name=login.URL_NAME),
    path("v1/", api.urls),
    path("v1/<path:rest>", login.serve),
    path("hooks/<path:rest>", hooks.serve),
    path("mcp", house.serve),
    path("mcp/<str:server>/connect", mcp_sign_in.connect),
    path("mcp/<str:server>/connect-link", mcp_sign_in.create_link),
    path("mcp/<str:server>/oauth/callback", mcp_sign_in.come_back),
    path("health/live", health.is_live),
    path("health/ready", health.is_ready),
]
