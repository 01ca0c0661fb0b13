"""Validation beyond pydantic's (encoding, JSON size, media), and
pydantic's errors in OpenAI's format.
"""
