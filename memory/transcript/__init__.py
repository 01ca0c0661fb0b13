"""Threads and messages of each user: how they are stored, cached, and read again."""
