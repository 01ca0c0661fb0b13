"""Whose request it is: its caller, and the id of the user whom it names."""
