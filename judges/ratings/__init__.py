"""Scores of judges, feedback of users, and reports of both."""
