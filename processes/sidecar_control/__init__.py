"""Sidecars of the YAML: their processes, records, status and restart requests."""
