"""Programs that this process starts: found, started in groups of their own, and ended
with them, also when this process is killed.
"""
