"""The studio as Django knows it."""

from django.apps import AppConfig


class StudioApp(AppConfig):
    name = "studio"
