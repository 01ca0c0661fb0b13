"""Helpers of a running process: backoff, request ids, atomic writes, SIGINT."""
