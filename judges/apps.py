"""Judges as Django knows them."""

from django.apps import AppConfig


class JudgesApp(AppConfig):
    name = "judges"
