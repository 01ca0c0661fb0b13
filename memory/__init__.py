"""Memory: transcripts, facts, search and user data, per user and thread."""
