"""Surroundings of a turn: live registration, record, transaction, hooks, charge."""
