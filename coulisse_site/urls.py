"""Every path the server answers."""

from django.urls import path
from django.views.generic import TemplateView

from gateway import health, house
from gateway.api import api

urlpatterns = [
    path("v1/", api.urls),
    path("mcp", house.serve),
    path("health/live", health.is_live),
    path("health/ready", health.is_ready),
    path("admin/", TemplateView.as_view(template_name="studio_absent.html")),
]
