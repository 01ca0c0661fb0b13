"""A worker's runner, for the tasks of triggers."""

from tests.tasks.conftest import user_id, working  # noqa: F401
