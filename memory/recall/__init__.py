"""Hybrid search over a user's facts and messages: queries, passages, vectors, and rank
fusion."""
