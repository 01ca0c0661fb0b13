"""Classify hosts and client addresses without resolving names."""
