"""One server from start to stop: what it consists of, its start in foreground or
background, its banner and its shutdown.
"""
