"""Large exports of conversations, read piece by piece and stored as threads."""
