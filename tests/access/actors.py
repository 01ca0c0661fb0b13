"""Actors of audited changes."""

from access.audit.audit_events import Actor

ADA = Actor("command line: ada", "command line on desk")
