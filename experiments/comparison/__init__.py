"""Comparison of an experiment's variants: traffic, scores, probability to be best, and
the report.
"""
