"""Adds tasks to the queue: once per idempotency key, within limits, or as a retry."""
