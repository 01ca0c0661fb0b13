"""The pages of the studio."""

from django.urls import path
from django.views.generic import TemplateView

from studio.door import URL_NAME

urlpatterns = [
    path("", TemplateView.as_view(template_name="studio/home.html"), name=URL_NAME),
]
