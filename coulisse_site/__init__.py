"""Settings and entry points: the only package that knows every app."""
