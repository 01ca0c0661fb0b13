"""All paths under `/admin`, loaded only in processes that serve the studio."""

from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("admin", RedirectView.as_view(url="/admin/")),
    path("admin/", include("studio.urls")),
]
