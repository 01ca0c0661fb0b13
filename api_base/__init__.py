"""Shared parts of endpoints: JSON responses, pagination, field types."""
