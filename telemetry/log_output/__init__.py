"""The log on stderr: its filter, its formatters, its switch in the YAML, and the log
line of a turn.
"""
