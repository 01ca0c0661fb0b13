"""Every path under `/admin`, apart: a process nobody opens the studio in loads none."""

from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("admin", RedirectView.as_view(url="/admin/")),
    path("admin/", include("studio.urls")),
]
