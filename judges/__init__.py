"""Judges: models that score replies, and users' feedback on replies."""
