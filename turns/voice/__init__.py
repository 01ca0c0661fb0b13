"""Conversations by voice: keys for the browser, and the tools that it calls."""
