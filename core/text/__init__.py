"""Redact, escape and parse text from outside."""
