"""The Django app."""

from django.apps import AppConfig


class ImportsApp(AppConfig):
    name = "imports"
