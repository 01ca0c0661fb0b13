"""Runs of triggers: a task each, started by an event or by hand, and logged."""
