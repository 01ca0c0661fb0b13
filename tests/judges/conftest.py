"""A worker's runner, for the tasks that judge."""

from tests.tasks.conftest import user_id, working  # noqa: F401
