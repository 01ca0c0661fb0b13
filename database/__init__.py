"""The layer below all apps: the executor that runs table access for async code, and the
registry of tables with user data.
"""
