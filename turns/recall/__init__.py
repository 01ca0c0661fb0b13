"""Searches of a user's memory, in turns and outside them, and their vectors."""
