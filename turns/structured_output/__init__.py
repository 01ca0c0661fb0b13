"""Replies that must be JSON: their schemas, compiled and checked within limits of time
and memory.
"""
