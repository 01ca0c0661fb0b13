"""Usage of turns and other requests: reserved before the work, settled after it."""
