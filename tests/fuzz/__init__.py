"""Attacks a running server with generated and written requests: `make fuzz`.

pytest collects nothing here: a run takes minutes and starts its own servers.
"""
