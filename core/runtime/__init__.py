"""Helpers of a running process: request ids, batches, notifications, SIGINT."""
