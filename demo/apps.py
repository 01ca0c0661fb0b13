"""The Django app."""

from django.apps import AppConfig


class DemoApp(AppConfig):
    name = "demo"
