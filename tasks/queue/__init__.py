"""The task queue: rows are added, claimed under a lease, completed, recovered and
deleted.
"""
