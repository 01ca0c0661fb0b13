"""Metrics for Prometheus: all processes of one machine write into one directory, and
any web process serves their sum.
"""
