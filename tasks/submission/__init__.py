"""How tasks come into the queue: once for each key, within limits, or as a retry."""
