"""Sessions: how one ends, and the episode that is written of it."""
