"""Who sends a request: credentials, browser logins, the user it is for, and that user's
limits.
"""
