"""What accompanies and follows a turn: its place among the live turns, its record, its
transaction, its hooks, its charge.
"""
