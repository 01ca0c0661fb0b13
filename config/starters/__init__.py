"""Starter files for `manage.py init`, and their comments for the studio."""
