"""Every path the server answers."""

from django.urls import path
from django.views.generic import TemplateView

from gateway import health, house, mcp_sign_in
from gateway.api import api

urlpatterns = [
    path("v1/", api.urls),
    path("mcp", house.serve),
    path("mcp/<str:server>/connect", mcp_sign_in.connect),
    path("mcp/<str:server>/connect-link", mcp_sign_in.create_link),
    path("mcp/<str:server>/oauth/callback", mcp_sign_in.come_back),
    path("health/live", health.is_live),
    path("health/ready", health.is_ready),
    path("admin/", TemplateView.as_view(template_name="studio_absent.html")),
]
