"""Builds the rows of the sample data, one module per kind of record, and inserts them
in bulk.
"""
