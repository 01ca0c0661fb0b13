"""Runs of triggers: one task each, started by an event or manually, and logged."""
