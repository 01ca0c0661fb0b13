"""Authentication, users, API tokens, limits and the audit."""
