"""Replies that must be JSON. Schemas are compiled and checked within limits of time and
memory.
"""
