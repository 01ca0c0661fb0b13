"""Hybrid search over a user's facts and messages: queries, passages, their vectors, and
rank fusion.
"""
