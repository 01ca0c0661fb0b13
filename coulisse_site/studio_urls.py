"""All paths under `/admin`, loaded only in processes that serve the studio."""

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView

from studio.base.views import NotFoundView
from studio.operations import tables

admin.autodiscover()
tables.register()

urlpatterns = [
    path("admin", RedirectView.as_view(url="/admin/")),
    path("admin/", admin.site.urls),
    path("admin/<path:rest>", NotFoundView.as_view()),
]
