"""A worker's runner, for the turns that tasks are."""

from tests.tasks.conftest import user_id, working  # noqa: F401
