"""The demo as Django knows it."""

from django.apps import AppConfig


class DemoApp(AppConfig):
    name = "demo"
