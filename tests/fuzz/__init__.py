"""Attacks a running server with generated and written requests: `make fuzz`.

Nothing here is collected by pytest: a run takes minutes and a server of its own.
"""
