"""Running smoke tests: conversations of personas with agents, and the lifecycle of
their runs.
"""
