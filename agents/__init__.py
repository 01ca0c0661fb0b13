"""Agents: the named personas that clients talk to."""
