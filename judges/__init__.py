"""Judges: models that score replies, and what people say of them."""
