"""Stored data of each user: the list of users, export, erasure, and the registered
tables."""
