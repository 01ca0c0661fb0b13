"""All paths under `/admin`. Separate, so that processes without studio visits skip it."""

from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("admin", RedirectView.as_view(url="/admin/")),
    path("admin/", include("studio.urls")),
]
