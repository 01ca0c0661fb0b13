"""Smoke tests: conversations of agents with synthetic users, and their results."""
