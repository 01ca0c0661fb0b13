"""Pages that report what happened: the home page with its alerts, turns, spend and the
audit.
"""
