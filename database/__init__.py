"""Below every app: the executor that takes async code to the tables, and which tables
hold rows of users.
"""
