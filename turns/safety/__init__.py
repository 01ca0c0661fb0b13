"""The safety checks of a turn: of its messages, and of its reply."""
