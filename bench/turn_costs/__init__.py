"""The figures of `python -m bench`: what a turn, its access checks and its tool calls
cost.
"""
