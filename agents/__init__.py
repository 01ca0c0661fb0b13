"""The named personas clients talk to."""
