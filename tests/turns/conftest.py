"""A worker's runner, for the turns that tasks are."""

from tests.tasks.conftest import task_runner, user_id  # noqa: F401
