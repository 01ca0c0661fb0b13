"""Fixtures for turns of tasks."""

from tests.tasks.conftest import task_runner, user_id  # noqa: F401
