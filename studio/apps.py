"""The Django app of the studio."""

from django.apps import AppConfig


class StudioApp(AppConfig):
    name = "studio"
