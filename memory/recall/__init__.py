"""Hybrid search over a user's facts and messages: passages, their vectors, and rank
fusion.
"""
