"""Threads as their users list, name, read and delete them, and add turns to them."""
