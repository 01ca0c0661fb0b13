"""Checks of what clients send, before and beside pydantic: hosts, encoding, JSON size,
image addresses; and pydantic's errors as OpenAI puts them.
"""
