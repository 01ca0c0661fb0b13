"""The context of a turn: recent messages, pinned facts, and recalled passages, as the
prompt quotes them.
"""
