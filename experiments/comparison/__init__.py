"""How the variants of an experiment compare: their traffic, their scores, how likely
each is the best, and the report of it.
"""
