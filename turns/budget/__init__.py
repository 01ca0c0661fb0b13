"""What turns and other requests may use: reserved before the work, settled after it."""
