"""Validate a section's data and explain its problems in plain words."""
