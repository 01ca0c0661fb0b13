"""What was said, per user and thread."""
