"""Validate a section's data, and explain in plain words what is wrong and what was
meant.
"""
