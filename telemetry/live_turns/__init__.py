"""The running turns, and their publication to the studio."""
