"""Anthropic's Messages API: requests become turns, and events become messages."""
