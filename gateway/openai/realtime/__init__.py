"""Conversations by voice: OpenAI's keys for browsers, and the tools they call."""
