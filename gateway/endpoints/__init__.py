"""The endpoints of tasks and webhooks."""
