"""Smoke tests: conversations of agents with synthetic users, and what came of them."""
