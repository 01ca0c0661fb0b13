"""The endpoints that are not chat: users' memories, turns, tasks, feedback and data,
and webhooks.
"""
