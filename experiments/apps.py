"""Experiments as Django knows them."""

from django.apps import AppConfig


class ExperimentsApp(AppConfig):
    name = "experiments"
