"""Fixtures of servers, which start processes."""

from tests.processes.conftest import database_url

__all__ = ["database_url"]
