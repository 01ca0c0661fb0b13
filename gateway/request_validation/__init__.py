"""Validation beyond pydantic's (hosts, encoding, JSON size, image addresses), and
pydantic's errors in OpenAI's format.
"""
