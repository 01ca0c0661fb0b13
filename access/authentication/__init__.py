"""Check who sends a request: passwords, OpenID Connect, login throttling and sessions
(`auth:`).
"""
