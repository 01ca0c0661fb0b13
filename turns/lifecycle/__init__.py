"""The end of a turn: its record, transaction, hooks and charge."""
