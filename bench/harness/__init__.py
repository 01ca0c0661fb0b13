"""The common parts of all measurements: server processes, users and sizes, CPU and
memory readings, the table of results.
"""
