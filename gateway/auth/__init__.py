"""Authentication of requests by credentials and browser logins, and usage limits."""
