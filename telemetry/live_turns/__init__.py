"""The turns that run now, and their publication to the studio."""
