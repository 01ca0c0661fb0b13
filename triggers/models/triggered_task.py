"""Runs of triggers: their tasks."""

from typing import Any

from django.db import models

from tasks.models import Task, TaskQuerySet


class TriggeredTaskManager(models.Manager.from_queryset(TaskQuerySet)):  # type: ignore[misc]  # built by Django
    def get_queryset(self) -> Any:
        return super().get_queryset().triggered()


class TriggeredTask(Task):
    objects = TriggeredTaskManager()  # type: ignore[misc]  # a proxy's own

    class Meta:
        proxy = True
        verbose_name = "trigger run"

    @property
    def trigger(self) -> str:
        return self.origin.partition(":")[2]
