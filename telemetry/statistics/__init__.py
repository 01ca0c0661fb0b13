"""Sums over recorded turns, by hour, agent, user, variant, and by what they cost."""
