"""Periodic work and alerts: the sweep, summaries of old conversations, and warnings for
operators.
"""
