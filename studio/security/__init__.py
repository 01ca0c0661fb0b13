"""Who uses the studio and what protects it: accounts, roles, passwords, sessions, CSRF
and the content security policy.
"""
