"""Pages an operator acts on: the playground, triggers, sidecars, API tokens, studio
accounts and the database tables.
"""
