"""Tasks that repeat a turn on other variants of its experiment without showing the
reply.
"""
