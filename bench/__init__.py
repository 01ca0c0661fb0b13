"""Measures the cost of turns on the real server: `python -m bench`."""
