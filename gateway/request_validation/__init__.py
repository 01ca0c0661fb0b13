"""Checks of what clients send, before and beside pydantic: hosts, encoding, JSON size,
image addresses.
"""
