"""Create, find, revoke and list API tokens."""
