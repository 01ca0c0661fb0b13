"""Read access to smoke runs: queries, JSON, terminal, JUnit and the diff of two
batches.
"""
