"""Webhook requests: authentication of the sender, delivery id, and prompt."""
