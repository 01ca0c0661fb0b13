"""A worker's runner, for the tasks of triggers."""

from tests.tasks.conftest import task_runner, user_id  # noqa: F401
