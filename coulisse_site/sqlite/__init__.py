"""Our database backend for SQLite."""
