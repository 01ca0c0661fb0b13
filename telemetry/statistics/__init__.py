"""Sums over recorded turns, by hour, agent, user and variant, and by cost."""
