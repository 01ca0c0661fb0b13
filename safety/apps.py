"""Django configuration of the safety app."""

from django.apps import AppConfig


class SafetyApp(AppConfig):
    name = "safety"
