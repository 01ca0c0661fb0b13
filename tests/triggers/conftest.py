"""A worker's runner, for what triggers start."""

from tests.tasks.conftest import user_id, working  # noqa: F401
