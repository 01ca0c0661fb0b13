"""Facts about users: created, updated, reconciled with what is known, and read as of
any moment.
"""
