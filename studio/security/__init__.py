"""Accounts, roles, passwords, sessions, CSRF checks and the content security policy."""
