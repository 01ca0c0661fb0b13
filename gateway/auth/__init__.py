"""Who sends a request: credentials and browser logins; their limits."""
