"""Whose request it is: its caller, and its user's id, derived from the name it gives."""
