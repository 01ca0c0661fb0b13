"""Recorded turns as JSON, as lines for the terminal, and as previews for lists."""
