"""Failures of providers: the error each one maps to, timeouts, backoff and circuit
breakers.
"""
