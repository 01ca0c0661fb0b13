"""Starter files for `coulisse init`, and their comments for the studio."""
