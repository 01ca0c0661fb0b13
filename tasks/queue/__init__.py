"""The task queue: rows that are added, claimed under a lease, closed, recovered and
deleted.
"""
