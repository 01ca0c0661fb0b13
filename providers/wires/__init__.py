"""Formats of the providers' APIs, without any I/O: requests to bytes, streams to
events.
"""
